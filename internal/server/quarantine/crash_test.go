package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// TestVerdict checks that only a run that ended a process alone, or that two crash reports name, is
// quarantined, and only if the process has certainly ended.
func TestVerdict(t *testing.T) {
	t.Parallel()
	silent := func(owner string, d time.Duration) store.RunCrash { return store.RunCrash{Owner: owner, Silent: d} }
	alone, named := silent("c", certainTime-1), silent("a", 0)
	alone.Alone, named.Named = true, true
	certain, both := alone, alone
	certain.Silent, both.Named = certainTime, true
	old := silent("a", time.Hour)
	for name, tc := range map[string]struct {
		crashes []store.RunCrash
		want    verdict
	}{
		"none":                                {nil, resume},
		"the first":                           {[]store.RunCrash{old}, resume},
		"the second":                          {[]store.RunCrash{old, silent("b", 0)}, try},
		"many beside other runs":              {[]store.RunCrash{old, old, old, old, old}, try},
		"the first report":                    {[]store.RunCrash{named}, try},
		"a report and a crash":                {[]store.RunCrash{named, old}, try},
		"two reports":                         {[]store.RunCrash{named, named}, convict},
		"alone, perhaps alive":                {[]store.RunCrash{old, old, alone}, wait},
		"alone, silent for a long time":       {[]store.RunCrash{old, old, certain}, convict},
		"alone with a report":                 {[]store.RunCrash{old, old, both}, convict},
		"alone, then a server that raced":     {[]store.RunCrash{old, certain, silent("d", 0)}, convict},
		"alone, perhaps alive, then one more": {[]store.RunCrash{old, alone, old}, wait},
	} {
		require.Equal(t, tc.want, verdictOf(tc.crashes, func(string) bool { return false }), name)
	}
	require.Equal(
		t,
		convict,
		verdictOf([]store.RunCrash{old, old, alone}, func(owner string) bool { return owner == "c" }),
		"the process is known to have ended",
	)
}
