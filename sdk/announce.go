package sdk

// Announcement is a plugin of a kind that another package of the SDK serves,
// for a WASM module's description and exports.
type Announcement struct {
	Name string
	Kind string
	// For and Owns are resources that a controller's host watches:
	// version/resource or group/version/resource.
	For  string
	Owns []string
	// Configure takes JSON; nil: there is no configuration.
	Configure func([]byte) error
	// Reconcile takes a key as JSON and returns after how many milliseconds it
	// wants to be asked again; 0: not before a change.
	Reconcile func(key []byte) (int64, error)
}

// Announce adds a plugin to this module. Packages of the SDK call it; authors
// use theirs (sdk/reconciler). Like Register it panics over what cannot be served.
func Announce(a Announcement) {
	if !plainName(a.Name) {
		panic("sdk.Announce: name " + a.Name + ": use 1 to 63 letters, digits, '-', '_' and '.'")
	}
	for _, other := range registered {
		if other.name == a.Name {
			panic("sdk.Announce: " + a.Name + " is registered twice")
		}
	}
	registered = append(registered, served{
		name: a.Name, kind: a.Kind, watchFor: a.For, owns: a.Owns, configure: a.Configure, reconcile: a.Reconcile,
	})
}

// Reconcile asks controller i about a key (JSON).
func (g *Guest) Reconcile(i int, key []byte) (requeueMilliseconds int64, err error) {
	p, err := g.plugin(i, KindController)
	if err != nil {
		return 0, err
	}
	defer contain(p.name, &err)
	return p.reconcile(key)
}
