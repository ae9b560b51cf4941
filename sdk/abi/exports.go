package abi

// Memory is the name under which a module exports its memory.
const Memory = "memory"

// Export is a function that a module exports.
type Export struct {
	Name string
	// Params and Results are a letter a value: i is i32, l is i64.
	Params, Results string
	// Optional: a module that has no plugin which needs it may lack it.
	Optional bool
}

// Signature is the parameters and the results, with a colon between them.
func (e Export) Signature() string { return e.Params + ":" + e.Results }

// Exports are all that a host calls.
func Exports() []Export {
	return []Export{
		{Name: "pintle_abi_version", Results: "i"},
		{Name: "pintle_alloc", Params: "i", Results: "i"},
		{Name: "pintle_free", Params: "i"},
		{Name: "pintle_describe", Results: "l"},
		{Name: "pintle_configure", Params: "iii", Results: "i"},
		{Name: "pintle_apply", Params: "ii", Results: "i"},
		{Name: "pintle_filter", Params: "iiiii", Results: "i"},
		{Name: "pintle_score", Params: "iiiii", Results: "i"},
		{Name: "pintle_normalize", Params: "iiiii", Results: "i"},
		{Name: "pintle_reason", Params: "ii", Results: "l"},
		{Name: "pintle_error", Results: "l"},

		{Name: "pintle_contract", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_cycle", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_answer", Results: "l", Optional: true},
		{Name: "pintle_instance", Params: "iii", Results: "i", Optional: true},
		{Name: "pintle_unresolvable", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_moved", Params: "iilii", Results: "i", Optional: true},
		{Name: "pintle_idle", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_indifferent", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_aloof", Params: "ii", Results: "i", Optional: true},
		{Name: "pintle_until", Params: "i", Results: "l", Optional: true},
		{Name: "pintle_evaluate", Params: "iiiiii", Results: "i", Optional: true},

		{Name: "pintle_reconcile", Params: "iii", Results: "l", Optional: true},
		{Name: "pintle_admit", Params: "iii", Results: "l", Optional: true},
	}
}
