package store

import (
	"context"
	"regexp"
	"slices"
	"time"
)

// How modules are looked for that nobody has.
const (
	orphanPage   = 10_000           // that are looked for at once
	orphanRuns   = 1000             // runs that are looked at in a transaction
	orphanMargin = 10 * time.Second // for runs that were being written when the look began
)

var digests = regexp.MustCompile(`[0-9a-f]{64}`)

// DeleteOrphans implements [Platform]. All runs are looked through for them, but beside
// those who write: these wait only while it is looked whether one has begun meanwhile.
func (s *store) DeleteOrphans(ctx context.Context, age time.Duration) (n int64, err error) {
	after := ""
	for {
		since, orphans, err := s.unnamed(ctx, age, after)
		if err != nil {
			return n, err
		}
		if len(orphans) == 0 {
			return n, s.sweep(ctx)
		}
		after = orphans[len(orphans)-1]
		had, err := s.inRuns(ctx, orphans)
		if err != nil {
			return n, err
		}
		orphans = slices.DeleteFunc(orphans, func(d string) bool { return had[d] })
		if err := inTurns(ctx, func() (bool, error) {
			gone, rest := int64(0), orphans
			err := s.update(ctx, false, func(t tx) (err error) {
				gone, rest, err = deleteOrphans(t, orphans, age, since)
				return err
			})
			n, orphans = n+gone, rest
			return len(orphans) > 0, err
		}); err != nil {
			return n, err
		}
	}
}

// unnamed returns modules behind one that no tenant names, in their order, and when that
// was, by the database's clock.
func (s *store) unnamed(ctx context.Context, age time.Duration, after string) (at int64, orphans []string, err error) {
	err = s.view(ctx, func(t tx) error {
		if _, err := one(t, `SELECT NOW_MS`, nil, &at); err != nil {
			return err
		}
		return t.query(func(scan func(...any) error) error {
			var d string
			err := scan(&d)
			orphans = append(orphans, d)
			return err
		}, `SELECT digest FROM modules WHERE digest > $1 AND created_ms < NOW_MS - $2
			AND NOT EXISTS (SELECT 1 FROM tenant_modules WHERE tenant_modules.digest = modules.digest) ORDER BY digest LIMIT $3`,
			after, age.Milliseconds(), int64(orphanPage))
	})
	return at, orphans, err
}

// inRuns returns which of so many modules runs began with.
func (s *store) inRuns(ctx context.Context, orphans []string) (map[string]bool, error) {
	had := map[string]bool{}
	for last, n := "", orphanRuns; n == orphanRuns; {
		n = 0
		err := s.view(ctx, func(t tx) error {
			return t.query(func(scan func(...any) error) error {
				n++
				var pins string
				err := scan(&last, &pins)
				for _, d := range digests.FindAllString(pins, -1) {
					if _, found := slices.BinarySearch(orphans, d); found {
						had[d] = true
					}
				}
				return err
			}, `SELECT id, modules FROM runs WHERE id > $1 ORDER BY id LIMIT $2`, last, int64(orphanRuns))
		})
		if err != nil {
			return nil, err
		}
	}
	return had, nil
}

// deleteOrphans deletes some that no tenant names, and no run has that began since. It
// returns those that are left to be looked at.
func deleteOrphans(t tx, orphans []string, age time.Duration, since int64) (n int64, rest []string, err error) {
	began, taken := time.Now(), map[string]bool{}
	if err := t.query(func(scan func(...any) error) error {
		var pins string
		err := scan(&pins)
		for _, d := range digests.FindAllString(pins, -1) {
			taken[d] = true
		}
		return err
	}, `SELECT modules FROM runs WHERE status IN ('running', 'paused', 'finished') AND created_ms >= $1`, since-orphanMargin.Milliseconds()); err != nil {
		return 0, orphans, err
	}
	for i, d := range orphans {
		if taken[d] {
			continue
		}
		gone, err := deleteOrphan(t, d, age)
		if err != nil {
			return 0, orphans, err
		}
		if gone {
			n++
		}
		if time.Since(began) > forgetTime {
			return n, orphans[i+1:], nil
		}
	}
	return n, nil, nil
}

// deleteOrphan deletes a module that no tenant names; its pieces are left to be swept.
func deleteOrphan(t tx, digest string, age time.Duration) (gone bool, err error) {
	var pieces string
	gone, err = one(t, `DELETE FROM modules WHERE digest = $1 AND created_ms < NOW_MS - $2
		AND NOT EXISTS (SELECT 1 FROM tenant_modules WHERE tenant_modules.digest = modules.digest) RETURNING pieces`, []any{digest, age.Milliseconds()}, &pieces)
	if err != nil || pieces == "" {
		return gone, err
	}
	_, err = t.exec(`INSERT INTO staged (id, written_ms) VALUES ($1, 0)`, pieces)
	return gone, err
}
