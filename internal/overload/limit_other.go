//go:build !unix

package overload

func here() *system { return &system{root: "/"} }
