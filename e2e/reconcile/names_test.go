package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// names gives what is random in names a number, in the order in which objects appear:
// web-785f7c99f9-8tg55 is web-(h1)-(1).
type names struct {
	shown    map[string]string // what is random or a whole name → how it is shown
	real     map[string]string // a whole name as shown → the name
	last     map[string]int    // the last number given, by what stands before it
	seen     map[types.UID]bool
	waiting  []*unstructured.Unstructured // appeared before what made them
	replacer *strings.Replacer
}

func newNames() *names {
	return &names{shown: map[string]string{}, real: map[string]string{}, last: map[string]int{}, seen: map[types.UID]bool{}, replacer: strings.NewReplacer()}
}

// appear takes in an object that appeared. What a controller made waits for its owner,
// which another watch may bring later: the name of a pod begins with that of its job.
func (n *names) appear(o *unstructured.Unstructured) {
	n.waiting = append(n.waiting, o)
	for {
		// One at a time: of those that are let go together the first to come is the first.
		i := slices.IndexFunc(n.waiting, func(o *unstructured.Unstructured) bool {
			owner := metav1.GetControllerOfNoCopy(o)
			return owner == nil || n.seen[owner.UID]
		})
		if i < 0 {
			return
		}
		next := n.waiting[i]
		n.waiting = slices.Delete(n.waiting, i, i+1)
		n.add(next)
		n.seen[next.GetUID()] = true
	}
}

// hashLabels have values that come from the hash of a template.
var hashLabels = []string{"pod-template-hash", "controller-revision-hash", "controller.kubernetes.io/hash"}

var digits = regexp.MustCompile(`^[0-9]+$`)

// add gives an object's name its numbers.
func (n *names) add(o *unstructured.Unstructured) {
	owner := metav1.GetControllerOfNoCopy(o)
	for _, label := range hashLabels {
		hash := o.GetLabels()[label]
		if owner != nil {
			hash = strings.TrimPrefix(hash, owner.Name+"-") // of a stateful set
		}
		if hash != "" && n.shown[hash] == "" {
			n.show(hash, n.next("h"))
		}
	}
	name := o.GetName()
	ordinal := owner != nil && owner.Kind == "StatefulSet" // db-0 keeps its name
	if prefix := o.GetGenerateName(); prefix != "" && strings.HasPrefix(name, prefix) && name != prefix && !ordinal {
		mark := markOf(o)
		number := n.next(n.in(prefix) + mark)
		if mark != "" {
			number = strings.Replace(number, "(", "("+mark+".", 1)
		}
		n.show(name, n.in(prefix)+number)
		return
	}
	if owner != nil && owner.Kind == "CronJob" {
		if minutes, ok := strings.CutPrefix(name, owner.Name+"-"); ok && digits.MatchString(minutes) {
			n.show(name, owner.Name+"-"+strings.Replace(n.next(owner.Name+"-"), "(", "(t", 1))
		}
	}
	n.real[n.in(name)] = name
}

// markOf tells objects apart that are made in no promised order: pods of a daemon set by
// the node that they are made for, and slices of IPv6.
func markOf(o *unstructured.Unstructured) string {
	if o.Object["addressType"] == "IPv6" {
		return "IPv6"
	}
	terms, _, _ := unstructured.NestedSlice(o.Object, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	for _, term := range terms {
		term, _ := term.(map[string]any)
		fields, _, _ := unstructured.NestedSlice(term, "matchFields")
		for _, field := range fields {
			field, _ := field.(map[string]any)
			if values, _, _ := unstructured.NestedStringSlice(field, "values"); field["key"] == metav1.ObjectNameField && len(values) == 1 {
				return values[0][strings.LastIndexByte(values[0], '-')+1:]
			}
		}
	}
	return ""
}

func (n *names) next(of string) string {
	n.last[of]++
	if of == "h" {
		return fmt.Sprintf("(h%d)", n.last[of])
	}
	return fmt.Sprintf("(%d)", n.last[of])
}

func (n *names) show(real, shown string) {
	n.shown[real], n.real[shown] = shown, real
	var pairs []string
	// The longest first: a name holds the hash of its template.
	for _, k := range slices.SortedFunc(maps.Keys(n.shown), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	}) {
		pairs = append(pairs, k, n.shown[k])
	}
	n.replacer = strings.NewReplacer(pairs...)
}

// in is a text with all names as they are shown.
func (n *names) in(text string) string { return n.replacer.Replace(text) }

// of is the name that is shown in this way, or the same text where it is no such name.
func (n *names) of(shown string) string { return cmp.Or(n.real[shown], shown) }

func TestNames(t *testing.T) {
	n := newNames()
	object := func(kind, name, generate string, labels map[string]string, owner ...string) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		o.SetName(name)
		o.SetGenerateName(generate)
		o.SetLabels(labels)
		if len(owner) == 2 {
			yes := true
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: owner[0], Name: owner[1], Controller: &yes}})
		}
		return o
	}
	hash := map[string]string{"pod-template-hash": "785f7c99f9"}
	n.add(object("Pod", "web-785f7c99f9-8tg55", "web-785f7c99f9-", hash, "ReplicaSet", "web-785f7c99f9"))
	n.add(object("ReplicaSet", "web-785f7c99f9", "", hash, "Deployment", "web"))
	n.add(object("Pod", "web-785f7c99f9-x7v2k", "web-785f7c99f9-", hash, "ReplicaSet", "web-785f7c99f9"))
	n.add(object("Pod", "db-0", "db-", map[string]string{"controller-revision-hash": "db-66c4d7f5b9"}, "StatefulSet", "db"))
	n.add(object("ControllerRevision", "db-66c4d7f5b9", "", map[string]string{"controller.kubernetes.io/hash": "66c4d7f5b9"}, "StatefulSet", "db"))
	n.add(object("Job", "nightly-29384756", "", nil, "CronJob", "nightly"))
	for text, want := range map[string]string{
		"Created pod: web-785f7c99f9-x7v2k": "Created pod: web-(h1)-(2)",
		"web-785f7c99f9 of web":             "web-(h1) of web",
		"db-0 of db-66c4d7f5b9":             "db-0 of db-(h2)",
		"job nightly-29384756":              "job nightly-(t1)",
	} {
		if got := n.in(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	for shown, want := range map[string]string{"web-(h1)-(2)": "web-785f7c99f9-x7v2k", "web-(h1)": "web-785f7c99f9", "nightly-(t1)": "nightly-29384756", "other": "other"} {
		if got := n.of(shown); got != want {
			t.Errorf("%q is the name %q, want %q", shown, got, want)
		}
	}
}

// TestNamesInAnyOrder: watches of different kinds bring objects in any order, and the names
// are the same.
func TestNamesInAnyOrder(t *testing.T) {
	made := func(kind, name, generate string, owner *unstructured.Unstructured) *unstructured.Unstructured {
		o := &unstructured.Unstructured{Object: map[string]any{"kind": kind}}
		o.SetName(name)
		o.SetUID(types.UID(name))
		o.SetGenerateName(generate)
		if owner != nil {
			yes := true
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: owner.GetKind(), Name: owner.GetName(), UID: owner.GetUID(), Controller: &yes}})
		}
		return o
	}
	cron := made("CronJob", "tick", "", nil)
	job := made("Job", "tick-29384756", "", cron)
	first, second := made("Pod", "tick-29384756-aaaaa", "tick-29384756-", job), made("Pod", "tick-29384756-bbbbb", "tick-29384756-", job)
	for _, order := range [][]*unstructured.Unstructured{{cron, job, first, second}, {first, job, second, cron}, {first, second, job, cron}, {job, first, cron, second}} {
		n := newNames()
		for _, o := range order {
			n.appear(o)
		}
		if got := n.in("tick-29384756-bbbbb after tick-29384756-aaaaa"); got != "tick-(t1)-(2) after tick-(t1)-(1)" {
			t.Errorf("shown as %q", got)
		}
		if len(n.waiting) != 0 || n.of("tick-(t1)-(2)") != second.GetName() {
			t.Errorf("%d wait, tick-(t1)-(2) is %s", len(n.waiting), n.of("tick-(t1)-(2)"))
		}
	}
}
