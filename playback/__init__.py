"""Playing games to be watched: episodes, their pictures and videos, perturbations, saliency."""
