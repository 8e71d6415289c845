package account

import "sync"

// Tenants holds the account of each tenant that is in use.
type Tenants struct {
	open func(tenant string) *Account

	mu      sync.Mutex
	tenants map[string]*tenantAccount
}

// A tenantAccount is an account and the number of its users.
type tenantAccount struct {
	account *Account
	users   int
}

// NewTenants returns an empty set of accounts. open returns the new account of a tenant.
func NewTenants(open func(tenant string) *Account) *Tenants {
	return &Tenants{open: open, tenants: map[string]*tenantAccount{}}
}

// Open returns the account of a tenant. The caller must call release. The account is closed when
// all its users have released it.
func (t *Tenants) Open(tenant string) (a *Account, release func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	its := t.tenants[tenant]
	if its == nil {
		its = &tenantAccount{account: t.open(tenant)}
		t.tenants[tenant] = its
	}
	its.users++
	return its.account, sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if its.users--; its.users == 0 {
			delete(t.tenants, tenant)
			its.account.Close()
		}
	})
}
