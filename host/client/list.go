package client

import (
	"fmt"
	"net/url"
	"strconv"
)

// A Page selects a part of a list. Its zero value selects the first page.
type Page struct {
	Cursor string // the next cursor of the previous page
	Limit  int    // maximum number of rows; the default is the server's
	// Name selects the agents, modules, keys or tenants whose names contain this text. Case is
	// ignored. Other lists ignore Name.
	Name string
}

// query returns the query parameters of a page.
func (p Page) query() url.Values {
	q := url.Values{}
	if p.Cursor != "" {
		q.Set("cursor", p.Cursor)
	}
	if p.Limit != 0 {
		q.Set("limit", strconv.Itoa(p.Limit))
	}
	if p.Name != "" {
		q.Set("name", p.Name)
	}
	return q
}

// maxPage is the maximum number of rows in a page. The server allows it for every list.
const maxPage = 500

// Collect reads the pages of a list until it has limit rows, or all rows if limit is 0. read returns
// a page's rows, and the cursor of the next page. The cursor is empty after the last page.
func Collect[T any](limit int, read func(Page) (rows []T, next string, err error)) ([]T, error) {
	all := []T{}
	for p := (Page{}); ; {
		p.Limit = maxPage
		if limit > 0 {
			p.Limit = min(maxPage, limit-len(all))
		}
		rows, next, err := read(p)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
		switch {
		case next == "", limit > 0 && len(all) >= limit:
			return all, nil
		case next == p.Cursor:
			return nil, fmt.Errorf("the server returned the cursor %.80q of a list twice in a row", next)
		}
		p.Cursor = next
	}
}
