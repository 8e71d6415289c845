package api

import "time"

// A Member is a person with a role in a tenant.
type Member struct {
	ID      string     `json:"id"`
	Tenant  string     `json:"tenant" doc:"The tenant; empty for an operator."`
	Email   string     `json:"email,omitempty" doc:"The e-mail address with which the member was added."`
	Subject string     `json:"subject,omitempty" doc:"The person's subject at the identity provider. Absent until a member who was added by address signs in."`
	Name    string     `json:"name,omitempty"`
	Role    string     `json:"role" doc:"owner, developer, approver or viewer; for operators, admin or support."`
	Created time.Time  `json:"created"`
	Joined  *time.Time `json:"joined,omitempty" doc:"The time of the first sign-in."`
}

// An AddMember is a request that adds a member by e-mail address or by subject.
type AddMember struct {
	Email   string `json:"email,omitempty" maxLength:"254" example:"ann@example.com"`
	Subject string `json:"subject,omitempty" maxLength:"255" doc:"The claim sub of the person's ID token."`
	Name    string `json:"name,omitempty" maxLength:"200" doc:"A name for people."`
	Role    string `json:"role" maxLength:"40" example:"developer" doc:"owner, developer, approver or viewer; for operators, admin or support."`
}

// A MemberUpdate is a request that changes a member's role.
type MemberUpdate struct {
	Role string `json:"role" maxLength:"40" example:"viewer" doc:"owner, developer, approver or viewer; for operators, admin or support."`
}

// A GroupRole gives the users of a group of the identity provider a role in a tenant.
type GroupRole struct {
	ID      string    `json:"id"`
	Group   string    `json:"group" doc:"The group's name in the groups claim."`
	Tenant  string    `json:"tenant" doc:"The tenant; empty for a role of operators."`
	Role    string    `json:"role"`
	Created time.Time `json:"created"`
}

// A MapGroup is a request that gives a group a role in a tenant.
type MapGroup struct {
	Group  string `json:"group" minLength:"1" maxLength:"256" example:"support-team" doc:"The group's name in the groups claim."`
	Tenant string `json:"tenant,omitempty" pattern:"^([a-z0-9][a-z0-9._-]{0,62})?$" doc:"The tenant. Default: the operator's own, for the roles admin and support."`
	Role   string `json:"role" maxLength:"40" example:"support" doc:"owner, developer, approver or viewer; for operators, admin or support."`
}
