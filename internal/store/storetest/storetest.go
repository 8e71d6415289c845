// Package storetest tests a store. [Run] takes a function that opens stores on an empty
// database, and runs the same tests on every kind of database. It uses only the interface of
// package store.
package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/agent/journal"
	"github.com/agent-runner/agent-runner/internal/longtest"
	"github.com/agent-runner/agent-runner/internal/store"
)

// An Opener opens a store on an empty database, and returns the database's location. A second store
// that is opened at this location uses the same database, as another process would.
type Opener func(t *testing.T, o *store.Options) (s store.Store, where string)

// long holds the names of the tests that the command "make test" skips.
var long = map[string]bool{"row limits": true, "pages and writers": true, "pages of events": true,
	"pages of other lists": true, "filters and writers": true, "series limits": true,
	"large bytes deleted": true, "concurrent journal bytes": true}

// Run runs the tests of the suite as parallel subtests. It skips the long tests unless they are
// enabled; see package longtest. Each test opens its stores with open.
func Run(t *testing.T, open Opener) {
	for name, test := range map[string]func(*testing.T, Opener){
		"runs":                     testRuns,
		"commits":                  testCommits,
		"rewrites":                 testRewrites,
		"fence":                    testFence,
		"claims":                   testClaims,
		"lists":                    testLists,
		"pages of runs":            testPagesOfRuns,
		"pages and writers":        testPagesAndWriters,
		"pages of other lists":     testPagesOfOtherLists,
		"filters":                  testFilters,
		"filters and writers":      testFiltersAndWriters,
		"terms":                    testTerms,
		"term limits":              testTermLimits,
		"costs":                    testCosts,
		"series":                   testSeries,
		"series limits":            testSeriesLimits,
		"page bytes":               testPageBytes,
		"pages of events":          testEventPages,
		"cancel":                   testCancel,
		"many":                     testMany,
		"prune":                    testPrune,
		"retention":                testRetention,
		"modules":                  testModules,
		"concurrent opens":         testConcurrentOpens,
		"values":                   testValues,
		"value versions":           testVersions,
		"quotas":                   testQuotas,
		"tenant value quotas":      testTenantValueQuotas,
		"time to live":             testTTL,
		"counters":                 testCounters,
		"tenants":                  testTenants,
		"tenants deleted":          testDeleteTenant,
		"isolation":                testIsolation,
		"keys":                     testKeys,
		"first key":                testFirstKey,
		"members":                  testMembers,
		"group roles":              testGroupRoles,
		"audit":                    testAudit,
		"audit of commits":         testAuditOfCommits,
		"tokens":                   testTokens,
		"rows of tokens":           testTokenRows,
		"quotas of tokens":         testTokenQuotas,
		"threads of tokens":        testTokenThreads,
		"origins":                  testOrigins,
		"sessions":                 testSessions,
		"tenant modules":           testTenantModules,
		"blocks":                   testBlocks,
		"agents":                   testAgents,
		"aliases":                  testAliases,
		"replays":                  testReplays,
		"names":                    testNames,
		"pages of agents":          testPagesOfAgents,
		"rollouts":                 testRollouts,
		"gateways":                 testGateways,
		"gateway quotas":           testGatewayQuotas,
		"tenant quotas":            testTenantQuotas,
		"meter":                    testMeter,
		"journal bytes":            testJournalBytes,
		"journal quotas":           testJournalQuotas,
		"concurrent journal bytes": testConcurrentJournalBytes,
		"expired runs":             testExpiredRuns,
		"silent processes":         testSilentProcesses,
		"crashes of runs":          testRunCrashes,
		"trials of runs":           testTrials,
		"concurrent resumes":       testConcurrentResumes,
		"storage quota":            testStorageQuota,
		"storage of versions":      testStorageOfVersions,
		"row limits":               testRowLimits,
		"unused modules":           testUnusedModules,
		"secrets":                  testSecrets,
		"traces":                   testTraces,
		"large bytes":              testLarge,
		"concurrent large bytes":   testConcurrentLarge,
		"large bytes rejected":     testLargeRejected,
		"large bytes deleted":      testLargeDeleted,
		"large bytes swept":        testLargeSwept,
		"large bytes corrupt":      testLargeCorrupt,
		"threads":                  testThreads,
		"thread forks":             testThreadForks,
		"retention of threads":     testThreadRetention,
		"adopted runs":             testAdoptedRuns,
		"quotas of thread forks":   testThreadForkQuotas,
		"erasure in threads":       testThreadErasure,
		"queues of threads":        testThreadQueue,
		"busy threads":             testThreadBusy,
		"fields of threads":        testThreadFields,
		"threads pruned":           testThreadsPruned,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if long[name] {
				longtest.Skip(t)
			}
			test(t, open)
		})
	}
}

const lease = time.Minute

// newRun creates a run with one entry in its log.
func newRun(t *testing.T, s store.Store, id string) {
	t.Helper()
	require.NoError(
		t,
		s.Create(t.Context(),
			&journal.Creation{ID: id, Agent: "a", Title: "hi", Owner: "me", LeaseTTL: lease, Log: []byte(`{"n":1}`)}),
	)
}

// commit appends an entry and one event to a run, with the given epoch and numbers.
func commit(s store.Store, run string, epoch, entry, seq int64) error {
	return s.Commit(context.Background(), &journal.Commit{Run: run, Epoch: epoch, Entry: entry, Log: []byte(`{}`),
		First: seq, Last: seq, Events: event(run, seq), LeaseTTL: lease})
}

// again opens another store on the same database and closes it after the test.
func again(t *testing.T, where string) store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), where, nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}
