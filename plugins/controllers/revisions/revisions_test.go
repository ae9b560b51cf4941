package revisions

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"
)

var (
	kind      = appsv1.SchemeGroupVersion.WithKind("StatefulSet")
	webLabels = map[string]string{"app": "web"}
)

func owner(name string) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID("uid-" + name), Generation: 1}}
}

func revision(of *appsv1.StatefulSet, number int64, data string) *appsv1.ControllerRevision {
	r := New(of, kind, webLabels, []byte(data), number, nil)
	r.UID = types.UID("uid-" + r.Name)
	return r
}

func fixture(t *testing.T, cached ...*appsv1.ControllerRevision) (*History, *fake.Clientset) {
	t.Helper()
	var objects []runtime.Object
	for _, r := range cached {
		objects = append(objects, r)
	}
	client := fake.NewClientset(objects...)
	informer := informers.NewSharedInformerFactory(client, 0).Apps().V1().ControllerRevisions().Informer()
	h, err := NewHistory(client, informer, kind)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range cached {
		if err := h.indexer.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	return h, client
}

func names(all []*appsv1.ControllerRevision) string {
	var s []string
	for _, r := range all {
		s = append(s, r.Name)
	}
	return strings.Join(s, " ")
}

// Name and hash are a contract: an owner whose cluster moves here must find the
// revisions that Kubernetes wrote. The data is that of a StatefulSet of 1.33,
// whose revision Kubernetes named test-c77f6d978.
func TestNamesAreThoseOfKubernetes(t *testing.T) {
	data := []byte(`{"spec":{"template":{"$patch":"replace","metadata":{"annotations":{"test":"value"},"creationTimestamp":null,"labels":{"app":"foo"}},` +
		`"spec":{"containers":[{"image":"test","imagePullPolicy":"Always","name":"test","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],` +
		`"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`)
	if got := New(owner("test"), kind, nil, data, 1, ptr.To[int32](0)).Name; got != "test-c77f6d978" {
		t.Errorf("name %s", got)
	}
	if Hash(data, nil) == Hash(data, ptr.To[int32](0)) || Hash(data, ptr.To[int32](0)) == Hash(data, ptr.To[int32](1)) {
		t.Error("the collision count is not in the hash")
	}
	for _, length := range []int{1, 223, 224, 253, 1000} {
		n := Name(strings.Repeat("a", length), Hash(data, nil))
		if len(n) > 253 || len(validation.NameIsDNSSubdomain(n, false)) > 0 {
			t.Errorf("a prefix of %d bytes gives %q", length, n)
		}
	}
}

func TestNewLeavesTheTemplateAlone(t *testing.T) {
	r := New(owner("web"), kind, webLabels, []byte(`{}`), 7, ptr.To[int32](0))
	if len(webLabels) != 1 {
		t.Errorf("labels of the template became %v", webLabels)
	}
	if r.Labels["app"] != "web" || r.Labels[HashLabel] == "" || r.Name != "web-"+r.Labels[HashLabel] || r.Revision != 7 || r.Namespace != "default" {
		t.Errorf("%+v", r)
	}
	if ref := metav1.GetControllerOf(r); ref == nil || ref.UID != "uid-web" || ref.Kind != "StatefulSet" || !*ref.BlockOwnerDeletion {
		t.Errorf("owner %+v", ref)
	}
	if r := New(owner("web"), kind, nil, nil, 1, nil); len(r.Labels) != 1 {
		t.Errorf("without labels: %v", r.Labels)
	}
}

func TestSortAndNext(t *testing.T) {
	at := func(number int64, second int64, name string) *appsv1.ControllerRevision {
		return &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(second, 0))}, Revision: number}
	}
	all := []*appsv1.ControllerRevision{at(3, 1, "e"), at(2, 5, "d"), at(2, 4, "c"), at(2, 4, "b"), at(1, 9, "a")}
	Sort(all)
	if got := names(all); got != "a b c d e" {
		t.Errorf("sorted %s", got)
	}
	if Next(all) != 4 || Next(nil) != 1 {
		t.Errorf("next %d, of none %d", Next(all), Next(nil))
	}
}

func TestEqual(t *testing.T) {
	a, same, other := revision(owner("web"), 1, `{"a":1}`), revision(owner("web"), 9, `{"a":1}`), revision(owner("web"), 1, `{"a":2}`)
	if !Equal(a, same) || Equal(a, other) || Equal(a, nil) || Equal(nil, a) || !Equal(nil, nil) {
		t.Error("equality is not that of the data")
	}
	if got := EqualTo([]*appsv1.ControllerRevision{other, a, same}, same); len(got) != 2 || got[0] != a || got[1] != same {
		t.Errorf("found %v", got)
	}
}

func TestListIsOfTheOwnerAndOrphans(t *testing.T) {
	mine, foreign, orphan, strange, far := revision(owner("web"), 2, `{}`), revision(owner("other"), 1, `{}`), revision(owner("web"), 1, `{"o":1}`), revision(owner("web"), 3, `{"s":1}`), revision(owner("web"), 4, `{"f":1}`)
	orphan.OwnerReferences = nil
	strange.Labels = map[string]string{"app": "strange"}
	far.Namespace = "far" // a forged reference across namespaces
	h, _ := fixture(t, mine, foreign, orphan, strange, far)
	got, err := h.List(owner("web"), labels.SelectorFromSet(webLabels))
	if err != nil || names(got) != orphan.Name+" "+mine.Name {
		t.Errorf("listed %s, %v", names(got), err)
	}
}

// One of the same name and other data is a collision; one of the same data is
// the revision, whoever wrote it.
func TestCreateCountsCollisions(t *testing.T) {
	web := owner("web")
	for _, tt := range []struct {
		taken      int // names that other data has
		same       bool
		collisions int32
	}{{0, false, 0}, {1, false, 1}, {3, false, 3}, {0, true, 0}, {2, true, 2}} {
		t.Run(fmt.Sprintf("%d taken, same %v", tt.taken, tt.same), func(t *testing.T) {
			r := New(web, kind, webLabels, []byte(`{"a":1}`), 1, ptr.To[int32](0))
			var there []*appsv1.ControllerRevision
			for i := range int32(tt.taken) {
				x := revision(web, 1, `{"other":1}`)
				x.Name = Name("web", Hash(r.Data.Raw, &i))
				there = append(there, x)
			}
			last := int32(tt.taken)
			if tt.same {
				x := revision(web, 1, `{"a":1}`)
				x.Name, x.UID = Name("web", Hash(r.Data.Raw, &last)), "before"
				there = append(there, x)
			}
			h, _ := fixture(t, there...)
			var collisions int32
			made, err := h.Create(t.Context(), web, r, &collisions)
			if err != nil || collisions != tt.collisions || made.Name != Name("web", Hash(r.Data.Raw, &last)) || (made.UID == "before") != tt.same {
				t.Errorf("%+v, %d collisions, %v", made, collisions, err)
			}
		})
	}
	h, client := fixture(t)
	if _, err := h.Create(t.Context(), web, revision(web, 1, `{}`), nil); err == nil {
		t.Error("no collision count is no error")
	}
	client.PrependReactor("create", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "x", errors.New("quota"))
	})
	if _, err := h.Create(t.Context(), web, revision(web, 1, `{}`), new(int32)); !apierrors.IsForbidden(err) {
		t.Errorf("a refusal is %v", err)
	}
}

func TestRenumberSurvivesConflicts(t *testing.T) {
	stale := revision(owner("web"), 1, `{}`)
	h, client := fixture(t, stale)
	conflicts := 2
	client.PrependReactor("update", "controllerrevisions", func(a k8stesting.Action) (bool, runtime.Object, error) {
		if conflicts--; conflicts >= 0 {
			return true, nil, apierrors.NewConflict(appsv1.Resource("controllerrevisions"), "x", errors.New("changed"))
		}
		return false, nil, nil
	})
	got, err := h.Renumber(t.Context(), stale, 5)
	if err != nil || got.Revision != 5 || stale.Revision != 1 {
		t.Errorf("%v, %v; the cached one has %d", got, err, stale.Revision)
	}
	if there, err := client.AppsV1().ControllerRevisions("default").Get(t.Context(), stale.Name, metav1.GetOptions{}); err != nil || there.Revision != 5 {
		t.Errorf("in the API: %v, %v", there, err)
	}
	conflicts = 1000
	if _, err := h.Renumber(t.Context(), stale, 6); !apierrors.IsConflict(err) {
		t.Errorf("endless conflicts are %v", err)
	}
}

func TestAdoptAsksTheAPIFirst(t *testing.T) {
	for name, tt := range map[string]struct {
		fresh func(o *appsv1.StatefulSet)
		err   bool
	}{
		"as it was":     {func(*appsv1.StatefulSet) {}, false},
		"being deleted": {func(o *appsv1.StatefulSet) { o.DeletionTimestamp = ptr.To(metav1.Now()) }, true},
		"another":       {func(o *appsv1.StatefulSet) { o.UID = "another" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			orphan, mine := revision(owner("web"), 1, `{"o":1}`), revision(owner("web"), 2, `{}`)
			orphan.OwnerReferences = nil
			h, client := fixture(t, orphan, mine)
			err := h.Adopt(t.Context(), owner("web"), []*appsv1.ControllerRevision{orphan, mine}, func(context.Context) (metav1.Object, error) {
				o := owner("web")
				tt.fresh(o)
				return o, nil
			})
			if (err != nil) != tt.err {
				t.Fatal(err)
			}
			there, err := client.AppsV1().ControllerRevisions("default").Get(t.Context(), orphan.Name, metav1.GetOptions{})
			if err != nil || metav1.IsControlledBy(there, owner("web")) == tt.err {
				t.Errorf("owners %v, %v", there.OwnerReferences, err)
			}
			if n := len(client.Actions()); n > 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
	h, _ := fixture(t)
	if err := h.Adopt(t.Context(), owner("web"), []*appsv1.ControllerRevision{revision(owner("web"), 1, `{}`)}, nil); err != nil {
		t.Errorf("without orphans: %v", err)
	}
}

func TestRelease(t *testing.T) {
	r := revision(owner("web"), 1, `{}`)
	h, client := fixture(t, r)
	var patch string
	client.PrependReactor("patch", "*", func(a k8stesting.Action) (bool, runtime.Object, error) {
		patch = string(a.(k8stesting.PatchAction).GetPatch())
		return true, r, nil
	})
	if err := h.Release(t.Context(), owner("web"), r); err != nil || !strings.Contains(patch, `"$patch":"delete"`) || !strings.Contains(patch, string(r.UID)) {
		t.Errorf("patch %s, %v", patch, err)
	}
	for _, gone := range []error{apierrors.NewNotFound(appsv1.Resource("controllerrevisions"), "x"), apierrors.NewInvalid(kind.GroupKind(), "x", nil)} {
		client.PrependReactor("patch", "*", func(k8stesting.Action) (bool, runtime.Object, error) { return true, nil, gone })
		if err := h.Release(t.Context(), owner("web"), r); err != nil {
			t.Errorf("%v is an error", gone)
		}
	}
}

func TestTruncate(t *testing.T) {
	var all []*appsv1.ControllerRevision
	for i := range int64(6) {
		all = append(all, revision(owner("web"), i+1, fmt.Sprintf(`{"n":%d}`, i)))
	}
	live := func(r *appsv1.ControllerRevision) bool { return r.Revision == 1 || r.Revision == 6 }
	for limit, left := range map[int]string{-1: "123456", 0: "16", 1: "156", 3: "13456", 4: "123456", 10: "123456"} {
		h, client := fixture(t, all...)
		if err := h.Truncate(t.Context(), all, limit, live); err != nil {
			t.Fatal(err)
		}
		list, err := client.AppsV1().ControllerRevisions("default").List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := map[int64]bool{}
		for _, r := range list.Items {
			got[r.Revision] = true
		}
		s := ""
		for i := range int64(6) {
			if got[i+1] {
				s += fmt.Sprint(i + 1)
			}
		}
		if s != left {
			t.Errorf("limit %d leaves %s, want %s", limit, s, left)
		}
		for _, a := range client.Actions() {
			if d, ok := a.(k8stesting.DeleteActionImpl); ok && d.DeleteOptions.Preconditions == nil {
				t.Errorf("%s is deleted whatever object it is", d.Name)
			}
		}
	}
}

func TestMemoryAsksOnce(t *testing.T) {
	m, web := NewMemory(), owner("web")
	wanted, latest := revision(web, 2, `{"new":1}`), revision(web, 1, `{"old":1}`)
	latest.ResourceVersion = "1"
	asked, answer, fault := 0, wanted, error(nil)
	ask := func(o *appsv1.StatefulSet, r *appsv1.ControllerRevision) (bool, error) {
		return m.Same(t.Context(), o, wanted, r, func(context.Context, *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
			asked++
			return answer, fault
		})
	}
	for i := range 3 {
		if same, err := ask(web, latest); !same || err != nil || asked != 1 {
			t.Fatalf("%d: %v, %v, asked %d times", i, same, err, asked)
		}
	}
	answer = latest
	changed := web.DeepCopy()
	changed.Generation++
	for i := range 2 { // a no is asked again
		if same, err := ask(changed, latest); same || err != nil || asked != 2+i {
			t.Fatalf("%v, %v, asked %d times", same, err, asked)
		}
	}
	newer := latest.DeepCopy()
	newer.ResourceVersion = "2"
	fault = errors.New("no answer")
	if same, err := ask(web, newer); same || !errors.Is(err, fault) {
		t.Errorf("%v, %v", same, err)
	}
}
