package signin

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/agent-runner/agent-runner/internal/store"
	"github.com/agent-runner/agent-runner/internal/truncate"
)

// Limits on claims. Longer claims are shortened or rejected.
const (
	maxSubject = 255
	maxEmail   = 254
	maxName    = 200
	maxGroup   = 256
)

// errRejected is the error of a token that is valid but does not satisfy the options.
var errRejected = errors.New("the provider's token is not accepted")

// discover returns the provider's configuration. It is read on the first sign-in, so that a server
// starts while its provider is down.
func (s *Service) discover(ctx context.Context) (*oidc.Provider, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.provider != nil {
		return s.provider, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.http), providerTimeout)
	defer cancel()
	p, err := oidc.NewProvider(ctx, s.o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("read the identity provider's configuration: %w", err)
	}
	s.provider = p
	return p, nil
}

// exchange exchanges a code for an ID token, and verifies the token.
func (s *Service) exchange(ctx context.Context, p *oidc.Provider, code string, a attempt) (*store.Person, error) {
	ctx, cancel := context.WithTimeout(oidc.ClientContext(ctx, s.http), providerTimeout)
	defer cancel()
	tokens, err := s.oauth(p).Exchange(ctx, code, oauth2.VerifierOption(a.verifier()))
	if err != nil {
		var answer *oauth2.RetrieveError
		if errors.As(err, &answer) {
			return nil, fmt.Errorf("%w: the provider rejects the code: %.100s", errRejected, answer.ErrorCode)
		}
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if raw == "" {
		return nil, fmt.Errorf("%w: the provider sends no ID token", errRejected)
	}
	token, err := p.VerifierContext(ctx, &oidc.Config{ClientID: s.o.ClientID, Now: s.now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.nonce())) != 1 {
		return nil, fmt.Errorf("%w: it has another nonce", errRejected)
	}
	return s.person(token)
}

// oauth returns the client's configuration for the endpoints of the provider.
func (s *Service) oauth(p *oidc.Provider) *oauth2.Config {
	return &oauth2.Config{
		ClientID:     s.o.ClientID,
		ClientSecret: s.o.ClientSecret,
		Endpoint:     p.Endpoint(),
		RedirectURL:  s.o.RedirectURL,
		Scopes:       append([]string{oidc.ScopeOpenID, "email", "profile"}, s.o.Scopes...),
	}
}

// bearer verifies a token of the provider that a client sent.
func (s *Service) bearer(ctx context.Context, raw string) (*store.Person, error) {
	p, err := s.discover(ctx)
	if err != nil {
		return nil, err
	}
	ctx = oidc.ClientContext(ctx, s.http)
	token, err := p.VerifierContext(ctx, &oidc.Config{SkipClientIDCheck: true, Now: s.now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	if !slices.ContainsFunc(token.Audience, func(a string) bool {
		return a == s.o.ClientID || slices.Contains(s.o.Audiences, a)
	}) {
		return nil, fmt.Errorf("%w: it is for another audience", errRejected)
	}
	return s.person(token)
}

// person returns the person that a token describes.
func (s *Service) person(token *oidc.IDToken) (*store.Person, error) {
	var c struct {
		Email    string          `json:"email"`
		Verified json.RawMessage `json:"email_verified"`
		Name     string          `json:"name"`
		Party    string          `json:"azp"`
	}
	all := map[string]json.RawMessage{}
	if err := errors.Join(token.Claims(&c), token.Claims(&all)); err != nil {
		return nil, fmt.Errorf("%w: %w", errRejected, err)
	}
	p := &store.Person{Issuer: s.o.Issuer, Subject: token.Subject, Name: clean(c.Name, maxName)}
	switch {
	case p.Subject == "" || len(p.Subject) > maxSubject || clean(p.Subject, maxSubject) != p.Subject:
		return nil, fmt.Errorf("%w: its subject is empty, too long or has invalid characters", errRejected)
	case len(token.Audience) > 1 && c.Party != "" && c.Party != s.o.ClientID && !slices.Contains(s.o.Audiences, c.Party):
		return nil, fmt.Errorf("%w: it was issued to another client", errRejected)
	}
	if verified := strings.Trim(string(c.Verified), `"`); verified == "true" || s.o.TrustEmail && verified == "" {
		if email := strings.ToLower(c.Email); len(email) <= maxEmail && clean(email, maxEmail) == email {
			p.Email = email
		}
	}
	if _, domain, _ := strings.Cut(p.Email, "@"); len(s.o.Domains) > 0 && !slices.ContainsFunc(s.o.Domains,
		func(d string) bool { return domain != "" && strings.EqualFold(d, domain) }) {
		return nil, fmt.Errorf("%w: the e-mail address is not verified or of another domain", errRejected)
	}
	p.Groups = groupsOf(all[s.o.GroupsClaim])
	return p, nil
}

// groupsOf returns the groups of a claim, which is a list or one string. It ignores other values.
func groupsOf(claim json.RawMessage) (groups []string) {
	var one string
	if json.Unmarshal(claim, &groups) != nil && json.Unmarshal(claim, &one) == nil {
		groups = []string{one}
	}
	return slices.DeleteFunc(
		groups,
		func(g string) bool { return g == "" || len(g) > maxGroup || clean(g, maxGroup) != g },
	)
}

// clean returns a text without control characters and of at most limit bytes.
func clean(s string, limit int) string {
	return truncate.Text(strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c == '\ufffd' {
			return -1
		}
		return c
	}, s), limit)
}
