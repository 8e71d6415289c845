package hook

// NewID returns a new message ID, or "" if the host does not assign IDs.
func (r *Run) NewID() string {
	if ids, ok := r.Host.(Identity); ok {
		return ids.NewID()
	}
	return ""
}
