package httpapi

import (
	"context"

	"github.com/agent-runner/agent-runner/internal/store"
)

// List reads the page of a tenant's list that an input selects, with at most limit rows. It returns what
// show returns for each row, and the cursor of the next page. It fails with a [*Problem] if the cursor is
// not one of this list.
func List[Row, Shown any](
	ctx context.Context,
	in *CursorInput,
	limit int,
	list ListName,
	tenant string,
	read func(context.Context, store.Page) (rows []Row, next *store.Position, err error),
	show func(*Row) Shown,
) (shown []Shown, out ListOutput, err error) {
	page, err := in.Page(list, tenant, limit)
	if err != nil {
		return nil, out, err
	}
	rows, next, err := read(ctx, page)
	if err != nil {
		return nil, out, err
	}
	shown = make([]Shown, len(rows)) // not nil, so that JSON has an array
	for i := range rows {
		shown[i] = show(&rows[i])
	}
	out.SetNext(list, tenant, next)
	return shown, out, nil
}
