package ownerreferences

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// rights are what a user may do: "verb namespace group/resource/subresource name".
type rights []string

func (r rights) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	asked := a.GetVerb() + " " + a.GetNamespace() + " " + a.GetAPIGroup() + "/" + a.GetResource() + "/" + a.GetSubresource() + " " + a.GetName()
	if !a.IsResourceRequest() || a.GetUser().GetName() != "mallory" {
		return authorizer.DecisionNoOpinion, "", errors.New("asked for somebody else")
	}
	if slices.Contains(r, asked) {
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "no " + asked, nil
}

func owner(uid, apiVersion, kind, name string, blocks *bool) metav1.OwnerReference {
	return metav1.OwnerReference{UID: types.UID(uid), APIVersion: apiVersion, Kind: kind, Name: name, BlockOwnerDeletion: blocks}
}

func TestValidate(t *testing.T) {
	yes, no := true, false
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("ReplicaSet"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	// A kind that two resources have.
	twice := schema.GroupVersion{Group: "example.com", Version: "v1"}
	mapper.AddSpecific(twice.WithKind("Twice"), twice.WithResource("firsts"), twice.WithResource("first"), meta.RESTScopeNamespace)
	mapper.AddSpecific(twice.WithKind("Twice"), twice.WithResource("seconds"), twice.WithResource("second"), meta.RESTScopeNamespace)

	set := func(blocks *bool) metav1.OwnerReference { return owner("u", "apps/v1", "ReplicaSet", "rs", blocks) }
	node := owner("n", "v1", "Node", "n1", &yes)
	const (
		deletes       = "delete ns /pods/ p"
		deletesStatus = "delete ns /pods/resize p"
		finalizesSet  = "update ns apps/replicasets/finalizers rs"
		finalizesNode = "update  /nodes/finalizers n1"
		finalizesAll  = "update  */*/finalizers *"
		cannotDelete  = "cannot set an ownerRef on a resource you can't delete: no delete ns /pods/ p, <nil>"
		cannotBlock   = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no update ns apps/replicasets/finalizers rs, <nil>"
	)
	type refs = []metav1.OwnerReference
	for _, tc := range []struct {
		name   string
		now    refs
		before refs // with update
		update bool
		sub    string
		may    rights
		fault  string
	}{
		{name: "no owners"},
		{name: "a new object has an owner", now: refs{set(nil)}},
		{name: "a new object does not block", now: refs{set(&no)}},
		{name: "a new object blocks", now: refs{set(&yes)}, fault: cannotBlock},
		{name: "a new object blocks what the user may", now: refs{set(&yes)}, may: rights{finalizesSet}},
		{name: "the right to another's finalizers", now: refs{set(&yes)}, may: rights{"update ns apps/replicasets/finalizers other", "update other apps/replicasets/finalizers rs", "update  apps/replicasets/finalizers rs"}, fault: cannotBlock},
		{name: "one of two", now: refs{set(&yes), node}, may: rights{finalizesSet}, fault: "can't set finalizers on: no update  /nodes/finalizers n1, <nil>"},
		{name: "both", now: refs{set(&yes), node}, may: rights{finalizesSet, finalizesNode}},
		{name: "everybody's finalizers", now: refs{set(&yes), owner("x", "none.example.com/v1", "None", "x", &yes)}, may: rights{finalizesAll}},
		{name: "a kind that is none", now: refs{owner("x", "none.example.com/v1", "None", "x", &yes)}, fault: `cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion none.example.com/v1 Kind None: no matches for kind "None" in version "none.example.com/v1"`},
		{name: "a version that is none", now: refs{owner("x", "a/b/c", "None", "x", &yes)}, fault: "cannot find RESTMapping for APIVersion a/b/c Kind None: unexpected GroupVersion string: a/b/c"},
		{name: "a kind that is none does not block", now: refs{owner("x", "a/b/c", "None", "x", nil)}},
		{name: "half of the resources of a kind", now: refs{owner("x", "example.com/v1", "Twice", "x", &yes)}, may: rights{"update ns example.com/firsts/finalizers x"}, fault: "no update ns example.com/seconds/finalizers x"},
		{name: "all resources of a kind", now: refs{owner("x", "example.com/v1", "Twice", "x", &yes)}, may: rights{"update ns example.com/firsts/finalizers x", "update ns example.com/seconds/finalizers x"}},

		{name: "nothing changes", update: true, now: refs{set(&yes)}, before: refs{set(&yes)}},
		{name: "none before and after", update: true, now: refs{}, before: nil},
		{name: "an owner comes", update: true, now: refs{set(nil)}, fault: cannotDelete},
		{name: "an owner goes", update: true, before: refs{set(nil)}, fault: cannotDelete},
		{name: "another owner", update: true, now: refs{node}, before: refs{set(nil)}, fault: cannotDelete},
		{name: "another order", update: true, now: refs{node, set(nil)}, before: refs{set(nil), node}, fault: cannotDelete},
		{name: "the right to finalizers is none to delete", update: true, now: refs{set(&yes)}, may: rights{finalizesSet, finalizesAll}, fault: cannotDelete},
		{name: "an owner comes to what the user may delete", update: true, now: refs{set(nil)}, may: rights{deletes}},
		{name: "an owner that blocks comes", update: true, now: refs{set(&yes)}, may: rights{deletes}, fault: cannotBlock},
		{name: "an owner begins to block", update: true, now: refs{set(&yes)}, before: refs{set(&no)}, may: rights{deletes}, fault: cannotBlock},
		{name: "an owner does not block any more", update: true, now: refs{set(nil)}, before: refs{set(&yes)}, may: rights{deletes}},
		{name: "what blocked may block beside another", update: true, now: refs{set(&yes), owner("o", "apps/v1", "ReplicaSet", "other", nil)}, before: refs{set(&yes)}, may: rights{deletes}},
		{name: "by another subresource", update: true, sub: "resize", now: refs{set(nil)}, may: rights{deletes}, fault: "no delete ns /pods/resize p"},
		{name: "by a subresource that the user may delete", update: true, sub: "resize", now: refs{set(nil)}, may: rights{deletesStatus}},
		{name: "by the status", update: true, sub: "status", now: refs{set(&yes)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := func(owners refs) runtime.Object {
				return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", OwnerReferences: owners}}
			}
			custom := func(owners refs) runtime.Object {
				o := &unstructured.Unstructured{Object: map[string]any{}}
				o.SetOwnerReferences(owners)
				return o
			}
			p, err := New(tc.may, mapper)
			if err != nil {
				t.Fatal(err)
			}
			for kind, object := range map[string]func(refs) runtime.Object{"pod": pod, "custom": custom} {
				op, old := admission.Create, runtime.Object(nil)
				if tc.update {
					op, old = admission.Update, object(tc.before)
				}
				a := admission.NewAttributesRecord(object(tc.now), old, corev1.SchemeGroupVersion.WithKind("Pod"), "ns", "p", corev1.SchemeGroupVersion.WithResource("pods"), tc.sub, op, nil, false, &user.DefaultInfo{Name: "mallory"})
				if err = p.Validate(t.Context(), a, nil); (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
					t.Errorf("%s: got %v, want %q", kind, err, tc.fault)
				}
			}
		})
	}
}

// Objects without metadata have no owners, and nobody is let in for want of who decides.
func TestNothingToAsk(t *testing.T) {
	p, err := New(rights(nil), meta.NewDefaultRESTMapper(nil))
	if err != nil {
		t.Fatal(err)
	}
	a := admission.NewAttributesRecord(nil, nil, schema.GroupVersionKind{}, "", "", schema.GroupVersionResource{}, "", admission.Create, nil, false, nil)
	if err := p.Validate(t.Context(), a, nil); err != nil {
		t.Error(err)
	}
	if p.Handles(admission.Delete) || p.Handles(admission.Connect) {
		t.Error("it handles requests that write no owners")
	}
	if _, err := New(nil, meta.NewDefaultRESTMapper(nil)); err == nil {
		t.Error("no authorizer, no error")
	}
}
