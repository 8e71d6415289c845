package runs

import "github.com/agent-runner/agent-runner/internal/account"

// memory holds the memory accounts of tenants with runs here.
type memory struct {
	process *account.Account
	tenants *account.Tenants
}

func newMemory(process *account.Account) *memory {
	return &memory{process, account.NewTenants(func(tenant string) *account.Account {
		return account.New(account.LevelTenant, tenant, process, account.DefaultTenant(process))
	})}
}

// OpenMemory returns the account of a tenant's runs, which other work of the tenant can use. The caller
// must call release. quota is the limit in bytes; 0 is the default.
func (r *Service) OpenMemory(tenant string, quota int64) (a *account.Account, release func()) {
	return r.memory.Open(tenant, quota)
}

// Open returns the account of a tenant. The caller must call release when the run has ended.
// quota is the limit in bytes; 0 is the default, a quarter of the process's limit.
func (m *memory) Open(tenant string, quota int64) (a *account.Account, release func()) {
	if quota <= 0 {
		quota = account.DefaultTenant(m.process)
	}
	a, release = m.tenants.Open(tenant)
	a.SetLimit(quota)
	return a, release
}
