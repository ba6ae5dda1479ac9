"""Every rule of every form: each yields findings and trusts nothing about the document it looks at."""
