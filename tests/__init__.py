"""The tests, a package so that worker processes can import its toy environments."""
