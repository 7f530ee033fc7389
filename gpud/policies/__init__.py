"""The policy language: text in, Program out. Pure; the only I/O is reading files (library.py)."""
