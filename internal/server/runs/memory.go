package runs

import (
	"sync"

	"github.com/agent-runner/agent-runner/internal/account"
)

// memory holds the memory accounts of tenants with runs here.
type memory struct {
	process *account.Account

	mu      sync.Mutex
	tenants map[string]*tenantMemory
}

// A tenantMemory is a tenant's account and the number of runs that use it.
type tenantMemory struct {
	account *account.Account
	runs    int
}

func newMemory(process *account.Account) *memory {
	return &memory{process: process, tenants: map[string]*tenantMemory{}}
}

// Open returns the account of a tenant. The caller must call release when the run has ended.
// quota is the limit in bytes; 0 is the default, a quarter of the process's limit.
func (m *memory) Open(tenant string, quota int64) (a *account.Account, release func()) {
	if quota <= 0 {
		quota = account.DefaultTenant(m.process)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tenants[tenant]
	if t == nil {
		t = &tenantMemory{account: account.New(account.LevelTenant, tenant, m.process, quota)}
		m.tenants[tenant] = t
	}
	t.account.SetLimit(quota)
	t.runs++
	return t.account, sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.runs--; t.runs == 0 {
			delete(m.tenants, tenant)
			t.account.Close()
		}
	})
}
