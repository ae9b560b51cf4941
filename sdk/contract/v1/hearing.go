package contractv1

// Hearing says at which events a pod that the plugin refused is tried again.
type Hearing struct {
	// Hears: Events is all there is, even if it is empty. Otherwise the plugin says
	// nothing, and its scope and what it reads tell.
	Hears  bool
	Events []*Interest
}

// Matches reports whether the interest is in an event. An update that has no
// Action of its own counts for those who take any.
func (i *Interest) Matches(kind string, action Action) bool {
	return (i.GetKind() == KindAny || i.GetKind() == kind) && i.GetActions()&uint32(action) != 0 && uint32(action) <= i.GetActions()
}

// The kinds of events beside those of objects.
const (
	KindNode           = "Node"
	KindPod            = "Pod"            // on a node, or the refused one itself
	KindUnscheduledPod = "UnscheduledPod" // on no node yet
	KindAny            = "*"
)
