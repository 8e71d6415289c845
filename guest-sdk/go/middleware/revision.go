package middleware

// Revision returns the revision of the list in the hook's input. Revisions belong to a
// run and can be stored in a [Local].
func (h *History) Revision() int64 { return h.shown.Revision }

// ChangedSince returns the index of the first message that changed since an earlier revision: the
// length if nothing changed, and 0 if the host no longer knows the revision. A hook that stores the
// last revision it has seen needs to read only the messages with that index or a larger one, even
// after the module's memory was reset. Call it before editing the list, because edits move the
// indices.
func (h *History) ChangedSince(revision int64) int {
	if revision == h.shown.Revision {
		return h.shown.Total
	}
	first, err := h.shown.host.Changed(h.shown.List.List, revision)
	if err != nil {
		return 0
	}
	return min(max(first, 0), h.shown.Total)
}
