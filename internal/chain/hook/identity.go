package hook

// NewID returns a new message id, or "" if the host assigns none.
func (r *Run) NewID() string {
	if ids, ok := r.Host.(Identity); ok {
		return ids.NewID()
	}
	return ""
}
