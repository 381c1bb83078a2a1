"""Games that are streamed while they are played, and the routes that hand them out."""
