"""The Play tab: visitors play by hand, at the server's clock."""
