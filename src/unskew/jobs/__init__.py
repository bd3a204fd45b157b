"""Jobs without Python: a TOML file that names source, key, operator and sink, checked and run."""
