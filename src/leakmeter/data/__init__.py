"""Datasets: `catalogue.load` reads them, `adapt.adapt` fits them to a victim, `fetch.fetch` downloads them."""
