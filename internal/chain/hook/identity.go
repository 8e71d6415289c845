package hook

func (r *Run) NewID() string {
	if ids, ok := r.Host.(Identity); ok {
		return ids.NewID()
	}
	return ""
}
