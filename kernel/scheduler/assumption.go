package scheduler

import (
	"maps"

	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/types"

	contractv1 "pintle.dev/pintle/sdk/contract/v1"

	"pintle.dev/pintle/kernel/scheduler/snapshot"
)

// objectRef names an object of any kind.
type objectRef struct {
	kind string
	name types.NamespacedName
}

func refOf(key *contractv1.ObjectKey) objectRef {
	return objectRef{key.GetKind(), snapshot.ObjectName(key)}
}

// assumption is what the API says of an object of which the snapshot says what a
// reserve plugin had assumed for a pod.
type assumption struct {
	pod types.UID
	api *contractv1.Object
}

// assumeObjects takes in what a reserve plugin assumes: the snapshot, and with it
// the plugins' replicas, have the objects as they will be. What is not there
// cannot be assumed of.
func (s *Scheduler) assumeObjects(p *podEntry, list []*contractv1.Assumption) {
	for _, a := range list {
		ref, now := refOf(a.GetKey()), s.snapshot.Object(a.GetKey())
		if now == nil {
			continue
		}
		then := proto.Clone(now).(*contractv1.Object)
		if c := a.GetClaim(); c != nil && then.Storage != nil {
			then.Storage.Claim = c
		}
		if len(a.GetAnnotations()) > 0 {
			if then.Annotations == nil {
				then.Annotations = map[string]string{}
			}
			maps.Copy(then.Annotations, a.GetAnnotations())
		}
		if !s.snapshot.SetObject(then) {
			continue // it is so already
		}
		if known, ok := s.presumed[ref]; ok {
			now = known.api
		}
		s.presumed[ref] = assumption{p.UID, now}
	}
}

// presumes reports whether the snapshot goes on with what is assumed of an object:
// as long as the API says of it what it said before.
func (s *Scheduler) presumes(o *contractv1.Object) bool {
	if len(s.presumed) == 0 {
		return false
	}
	ref := refOf(o.GetKey())
	known, ok := s.presumed[ref]
	if ok && !proto.Equal(known.api, o) {
		delete(s.presumed, ref)
		return false
	}
	return ok
}

// forgetAssumed has the snapshot say again what the API says of all objects of
// which something was assumed for the pod.
func (s *Scheduler) forgetAssumed(uid types.UID) {
	for ref, a := range s.presumed {
		if a.pod != uid {
			continue
		}
		delete(s.presumed, ref)
		before := s.snapshot.Object(a.api.Key)
		if before != nil && s.snapshot.SetObject(a.api) {
			s.happened(ref.kind, contractv1.Action_UPDATE, before, a.api)
		}
	}
}
