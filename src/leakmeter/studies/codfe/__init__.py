"""CoDFe: confident data-free model stealing."""
