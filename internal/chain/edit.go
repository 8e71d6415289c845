package chain

// An Identity gives messages their ids.
type Identity interface {
	// NewID returns an id that no message of the run has had.
	NewID() string
}

func (r *Run) newID() string {
	if ids, ok := r.host.(Identity); ok {
		return ids.NewID()
	}
	return ""
}
