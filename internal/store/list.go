package store

import (
	"errors"
	"strings"
	"time"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// A Position is a place in a list: the fields of a row that the list is ordered by. Together, these fields are
// unique, and they never change. So a position stays valid while rows are added, changed and deleted, even if its own
// row is deleted.
type Position struct {
	Created time.Time // creation time of the row, to the millisecond; zero in a list that is ordered by name alone
	Name    string    // the row's id, name or digest
}

// A Page selects a part of a list.
type Page struct {
	After *Position // the position at which the previous page ended; nil selects the first page
	Limit int       // maximum number of rows; the default is 100
	// Name selects the rows whose names contain this text. Case is ignored. Only the lists of agents,
	// modules, keys and tenants use it.
	Name string
}

// namePattern returns the pattern of LIKE for names that contain p.Name. It returns an empty string
// if p selects all rows.
func (p Page) namePattern() string {
	if p.Name == "" {
		return ""
	}
	return "%" + strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(p.Name) + "%"
}

const (
	defaultPageLimit = 100
	// maxPageBytes bounds the bytes in the text and binary columns of a page. The row that reaches
	// it is the last one of its page.
	maxPageBytes = 4 << 20
)

// name returns the name after which a page of a list ordered by name starts.
func (p Page) name() string {
	if p.After == nil {
		return ""
	}
	return p.After.Name
}

// older returns the creation time in milliseconds and the name before which a page of a
// list ordered from the newest row to the oldest one starts.
func (p Page) older() (createdMS int64, name string) {
	if p.After == nil {
		return 1 << 62, ""
	}
	return p.After.Created.UnixMilli(), p.After.Name
}

// errStop ends a query that has read enough rows.
var errStop = errors.New("enough")

// list reads a page of a list. The page ends after p.Limit rows, or after the row that reaches
// maxPageBytes. The query's last parameter is the maximum number of rows that it returns, which
// list adds to args. next is the position of the page's last row if more rows follow it, or else
// nil.
func list[T any](
	q database.Querier,
	p Page,
	read func(scan func(...any) error) (T, error),
	at func(*T) Position,
	sql string,
	args ...any,
) (rows []T, next *Position, err error) {
	limit := p.Limit
	if limit <= 0 {
		limit = defaultPageLimit
	}
	size := 0
	err = q.Query(func(scan func(...any) error) error {
		if len(rows) == limit || size >= maxPageBytes {
			last := at(&rows[len(rows)-1])
			next = &last
			return errStop
		}
		row, err := read(func(out ...any) error {
			err := scan(out...)
			size += textSize(out)
			return err
		})
		rows = append(rows, row)
		return err
	}, sql, append(args, int64(limit)+1)...)
	if err != nil && !errors.Is(err, errStop) {
		return nil, nil, err
	}
	return rows, next, nil
}

// textSize returns the number of bytes in the strings and byte slices of a scanned row.
func textSize(row []any) (size int) {
	for _, field := range row {
		switch f := field.(type) {
		case *string:
			size += len(*f)
		case *[]byte:
			size += len(*f)
		}
	}
	return size
}
