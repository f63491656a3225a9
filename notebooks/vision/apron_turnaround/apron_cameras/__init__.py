"""What two cameras see of a stand: scenes, films with their faults, a detector, tracks, fusion."""
