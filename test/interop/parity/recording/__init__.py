"""Records what the official Tinker SDK does, as language-neutral JSON. See ../record.py."""
