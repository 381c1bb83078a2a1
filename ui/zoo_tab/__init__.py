"""The Zoo tab: every agent beside what others have published, and a page for each."""
