package sdk

import "fmt"

// Action is what happened to an object, one bit each; the numbers are those of
// the Kubernetes scheduling framework (KEP-4247).
type Action uint32

// The actions. ActionUpdate is a change that none of the others names, and in an
// interest any of them.
const (
	ActionAdd Action = 1 << iota
	ActionDelete
	ActionUpdateNodeAllocatable
	ActionUpdateNodeLabel
	ActionUpdateNodeTaint // also: the node became schedulable
	ActionUpdateNodeCondition
	ActionUpdateNodeAnnotation
	ActionUpdateNodeDeclaredFeature
	ActionUpdatePodLabel
	ActionUpdatePodScaleDown
	ActionUpdatePodToleration
	ActionUpdatePodSchedulingGatesEliminated
	ActionUpdatePodGeneratedResourceClaim

	ActionAll    Action = 1<<iota - 1
	ActionUpdate        = ActionAll &^ (ActionAdd | ActionDelete)
)

// Kinds that events have beside those of objects.
const (
	// KindNode is the kind of nodes.
	KindNode = "Node"
	// KindPod is the kind of pods on nodes. A change of the refused pod itself is
	// an event of this kind too, about which Helps is not asked.
	KindPod = "Pod"
	// KindUnscheduledPod is the kind of pods that are on no node yet.
	KindUnscheduledPod = "UnscheduledPod"
	// KindAny matches all.
	KindAny = "*"
)

// Interest says which events may help a pod that the plugin refused. With its
// interests declared, a plugin's refusals stand until one of them happens; a
// plugin that declares none (nil) is asked again after each event that its scope
// and the kinds it reads leave possible.
type Interest struct {
	Kind    string // Node, Pod, UnscheduledPod, a kind of object, or *
	Actions Action
	// Helps reports whether the event can help the pod; nil: it always can. It is
	// asked once for all pods that are alike, behind the scheduling and in
	// batches, of the replica as it is after the event. A panic counts as true.
	Helps func(c *Cluster, pod *Pod, e *Event) bool
}

// OwnChange is an interest in changes of the refused pod alone.
func OwnChange(actions Action) Interest {
	return Interest{Kind: KindPod, Actions: actions, Helps: func(*Cluster, *Pod, *Event) bool { return false }}
}

// Event is a change of one object: Old of deletions and updates, New of additions
// and updates. Pods have neither name, UID nor node, as one event stands for all
// pods that are alike.
type Event struct {
	Kind   string
	Action Action

	OldNode, NewNode     *Node // without pods
	OldPod, NewPod       *Pod
	OldObject, NewObject *Object
}

// matches reports whether the interest is in such an event.
func (i *Interest) matches(e *Event) bool {
	// An update that has no name of its own counts for those who take any.
	return (i.Kind == KindAny || i.Kind == e.Kind) && i.Actions&e.Action != 0 && e.Action <= i.Actions
}

// hint answers the point QUEUEING_HINT: of each pod, the last event that can help it.
func (p *served) hint(c *cycleCall, r *stepResult) {
	r.helps = make([]uint32, len(c.pods))
	for k := range c.pods {
		pod := c.pods[k].Pod
		for n := len(c.events); n > 0 && r.helps[k] == 0; n-- {
			if p.helps(c.cluster, pod, &c.events[n-1]) {
				r.helps[k] = uint32(n)
			}
		}
	}
}

func (p *served) helps(c *Cluster, pod *Pod, e *Event) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = true // better once too often than never
		}
	}()
	for i := range p.interests {
		if in := &p.interests[i]; in.matches(e) && (in.Helps == nil || in.Helps(c, pod, e)) {
			return true
		}
	}
	return false
}

func decodeEvent(data []byte) (Event, error) {
	var e Event
	err := message(data, "event", func(f *field) (err error) {
		switch f.tag {
		case 1:
			e.Kind = f.text()
		case 2:
			e.Action = Action(f.number)
		case 3:
			e.OldNode = &Node{}
			err = decodeNode(f.bytes, e.OldNode)
		case 4:
			e.NewNode = &Node{}
			err = decodeNode(f.bytes, e.NewNode)
		case 5:
			e.OldPod = &Pod{}
			err = decodePod(f.bytes, e.OldPod)
		case 6:
			e.NewPod = &Pod{}
			err = decodePod(f.bytes, e.NewPod)
		case 7:
			e.OldObject, err = decodeObject(f.bytes)
		case 8:
			e.NewObject, err = decodeObject(f.bytes)
		}
		return err
	})
	return e, err
}

// hinted checks the interests and has the point answered at which those with a
// function are asked.
func (p *served) hinted() error {
	for k := range p.interests {
		i := &p.interests[k]
		if i.Actions == 0 || i.Actions > ActionAll || i.Kind != KindAny && !plainName(i.Kind) {
			return fmt.Errorf("%s: interest %d in %q: name a kind and what happens to it", p.name, k, i.Kind)
		}
		if i.Helps != nil {
			if p.at == nil {
				p.at = map[point]step{}
			}
			p.at[pointQueueingHint] = func(c *cycleCall, s *cycleStep, r *stepResult) { s.served.hint(c, r) }
		}
	}
	return nil
}
