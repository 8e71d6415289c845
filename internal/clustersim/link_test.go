package clustersim

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"modernc.org/sqlite"

	"github.com/agent-runner/agent-runner/internal/store/database"
)

// clock is the SQL function of the database's clock, which follows the simulated time.
const clock = "simulated_ms"

func TestMain(m *testing.M) {
	sqlite.MustRegisterScalarFunction(clock, 0, func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		return time.Now().UnixMilli(), nil
	})
	m.Run()
}

var (
	errKilled = &database.Error{Kind: database.Failed, Database: "simulated", Err: errors.New("the server was killed")}
	errCutOff = &database.Error{Kind: database.Unavailable, Database: "simulated", Err: errors.New("cut off")}
)

// A link is the connection of a server to the shared database.
type link struct {
	database.DB
	machine *machine
	mutate  func(statement string) string // seeds a fault into statements; nil for none
	count   atomic.Int64                  // transactions
}

// Update implements [database.DB]. Transactions do not wait for fsync, because the power does not fail.
func (l *link) Update(ctx context.Context, o database.TxOptions, fn func(database.Tx) error) error {
	o.Lazy = true
	return l.transact(func() error {
		return l.DB.Update(ctx, o, func(t database.Tx) error { return fn(&transaction{t, l}) })
	})
}

// View implements [database.DB].
func (l *link) View(ctx context.Context, fn func(database.Tx) error) error {
	return l.transact(func() error {
		return l.DB.View(ctx, func(t database.Tx) error { return fn(&transaction{t, l}) })
	})
}

// Exclusive implements [database.DB].
func (l *link) Exclusive(ctx context.Context, fn func(database.Tx) error) error {
	return l.Update(ctx, database.TxOptions{}, fn)
}

// Close implements [database.DB]. The database stays open for the other servers.
func (l *link) Close() error { return nil }

// transact runs a transaction if the machine reaches the database, and returns its result if it still
// does afterwards.
func (l *link) transact(run func() error) error {
	if err := l.machine.reach(); err != nil {
		return err
	}
	l.count.Add(1)
	err := run()
	if lost := l.machine.reach(); lost != nil {
		return lost
	}
	return err
}

// A transaction uses the simulated clock.
type transaction struct {
	database.Tx
	link *link
}

// Exec implements [database.Tx].
func (t *transaction) Exec(text string, args ...any) (int64, error) {
	return t.Tx.Exec(t.translate(text), args...)
}

// Query implements [database.Tx].
func (t *transaction) Query(scan func(func(...any) error) error, text string, args ...any) error {
	return t.Tx.Query(scan, t.translate(text), args...)
}

func (t *transaction) translate(text string) string {
	if t.link.mutate != nil {
		text = t.link.mutate(text)
	}
	return strings.ReplaceAll(text, "NOW_MS", clock+"()")
}
