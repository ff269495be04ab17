"""One file a command: flags in, one call into the library, an exit code out."""
