// Package tokens serves the tokens of the end users of tenants, and the origins whose pages may use them.
// Package httpapi authenticates tokens and answers preflight requests.
package tokens
