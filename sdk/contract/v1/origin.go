package contractv1

// Origin is where a plugin's answers come from.
type Origin struct {
	Bundle, Version string
	Transport       string // wasm or process
	Digest          string
}

// Origins is a Policy that knows where its plugins come from. Origin is safe
// for concurrent use, also when the policy is no longer in use.
type Origins interface {
	Origin(plugin string) Origin
}
