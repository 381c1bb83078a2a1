"""A static arcade: recorded games and pages that any web server can host, made by `python -m ui.site`."""
