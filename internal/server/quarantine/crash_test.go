package quarantine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agent-runner/agent-runner/internal/store"
)

// TestVerdict checks that only a run that crashed a process alone, that ended several alone without a
// crash report, or that two crash reports name, is quarantined, and only if the processes have certainly
// ended.
func TestVerdict(t *testing.T) {
	t.Parallel()
	type crashes []store.RunCrash
	old, young := store.RunCrash{Owner: "a", Silent: time.Hour}, store.RunCrash{Owner: "b"}
	named := store.RunCrash{Owner: "a", Named: true, Reported: true}
	reported := store.RunCrash{Owner: "a", Reported: true}
	perhaps := store.RunCrash{Owner: "c", Alone: true, Silent: certainTime - 1}
	silent := store.RunCrash{Owner: "d", Alone: true, Silent: certainTime}
	crashed := store.RunCrash{Owner: "e", Alone: true, Reported: true}
	known := store.RunCrash{Owner: "gone", Alone: true}
	for name, tc := range map[string]struct {
		crashes         crashes
		want, unrelated verdict
	}{
		"none":                                 {nil, resume, resume},
		"the first":                            {crashes{old}, resume, resume},
		"the second":                           {crashes{old, young}, try, try},
		"many beside other runs":               {crashes{old, old, old, old, old}, try, try},
		"the first report":                     {crashes{named}, try, try},
		"a report and a crash":                 {crashes{named, old}, try, try},
		"reports that name no run":             {crashes{reported, reported, reported}, try, try},
		"two reports":                          {crashes{named, named}, convict, convict},
		"alone, perhaps alive":                 {crashes{old, old, perhaps}, wait, wait},
		"alone, silent for a long time":        {crashes{old, old, silent}, try, try},
		"alone, known to have ended":           {crashes{old, old, known}, try, try},
		"alone with a report":                  {crashes{old, old, crashed}, convict, convict},
		"alone without and with a report":      {crashes{old, old, silent, crashed}, convict, convict},
		"alone, then a server that raced":      {crashes{old, crashed, young}, convict, convict},
		"alone, perhaps alive, then one more":  {crashes{old, perhaps, old}, wait, wait},
		"alone twice":                          {crashes{old, old, known, silent}, convict, try},
		"alone twice, once perhaps alive":      {crashes{old, old, silent, perhaps}, wait, wait},
		"alone twice and beside other runs":    {crashes{old, silent, old, silent}, convict, try},
		"alone three times":                    {crashes{old, silent, silent, silent}, convict, try},
		"alone four times":                     {crashes{old, silent, silent, silent, silent}, convict, convict},
		"alone three times and beside another": {crashes{silent, silent, silent, old}, convict, try},
	} {
		gone := func(owner string) bool { return owner == "gone" }
		require.Equal(t, tc.want, verdictOf(tc.crashes, gone, false), name)
		require.Equal(t, tc.unrelated, verdictOf(tc.crashes, gone, true), name)
	}
}

// TestEvidenceIn checks the reasons that tenants and operators read.
func TestEvidenceIn(t *testing.T) {
	t.Parallel()
	first, second := store.RunCrash{Owner: "a", Named: true}, store.RunCrash{Owner: "b"}
	silent, last := store.RunCrash{Owner: "c", Alone: true}, store.RunCrash{Owner: "d", Alone: true}
	crashed := store.RunCrash{Owner: "e", Alone: true, Reported: true}
	for want, crashes := range map[string][]store.RunCrash{
		"a: 2 servers ended while they executed the run, and the crash reports of two name it":       {first, first},
		"d: 4 servers ended while they executed the run, 2 of them while they executed nothing else": {first, second, silent, last},
		"e: 4 servers ended while they executed the run, one of them crashed while it executed nothing else": {
			first, silent, crashed, last,
		},
	} {
		reason, owner := evidenceIn(crashes)
		require.Equal(t, want, owner+": "+reason)
	}
}
