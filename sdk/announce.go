package sdk

import "fmt"

// Announcement is a plugin of a kind that another package of the SDK serves:
// controllers of sdk/reconciler, admission plugins of sdk/admission.
type Announcement struct {
	Name string
	Kind string
	// Configure takes JSON, or no bytes for no configuration; nil: there is none.
	Configure func([]byte) error

	// Of controllers. For and Owns are resources that the host watches:
	// version/resource or group/version/resource.
	For  string
	Owns []string
	// Reconcile takes a key as JSON and returns after how many milliseconds it
	// wants to be asked again; 0: not before a change.
	Reconcile func(key []byte) (int64, error)

	// Of admission plugins.
	Phase string // PhaseMutating or PhaseValidating
	Rules []AdmissionRule
	// Admit takes an AdmissionRequest of admission.k8s.io/v1 and returns an
	// AdmissionResponse, both as JSON.
	Admit func(request []byte) ([]byte, error)
}

// Phases of admission plugins: mutating ones come first.
const (
	PhaseMutating   = "mutating"
	PhaseValidating = "validating"
)

// AdmissionRule says which requests an admission plugin is asked about.
type AdmissionRule struct {
	Operations []string // CREATE, UPDATE, DELETE, CONNECT
	Resources  []string // [group/]version/resource[/subresource]; each may be *
}

// Announce adds a plugin to this bundle. Packages of the SDK call it; authors
// use theirs. Like Register it panics over what cannot be served.
func Announce(a Announcement) {
	if !plainName(a.Name) {
		panic(fmt.Sprintf("sdk.Announce: name %q: use 1 to 63 letters, digits, '-', '_' and '.'", a.Name))
	}
	for _, other := range registered {
		if other.name == a.Name {
			panic("sdk.Announce: " + a.Name + " is registered twice")
		}
	}
	registered = append(registered, served{name: a.Name, kind: a.Kind, configure: a.Configure, announced: &a})
}

// Reconcile asks controller i about a key (JSON).
func (g *Guest) Reconcile(i int, key []byte) (requeueMilliseconds int64, err error) {
	p, err := g.plugin(i, KindController)
	if err != nil {
		return 0, err
	}
	defer contain(p.name, &err)
	return p.announced.Reconcile(key)
}

// Admit asks admission plugin i about a request (JSON).
func (g *Guest) Admit(i int, request []byte) (response []byte, err error) {
	p, err := g.plugin(i, KindAdmission)
	if err != nil {
		return nil, err
	}
	defer contain(p.name, &err)
	return p.announced.Admit(request)
}
