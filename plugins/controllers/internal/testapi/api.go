package testapi

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
)

// ErrDead is what every write answers after the process has died.
var ErrDead = errors.New("the controller's process is dead")

// API keeps objects as an API server does, for one controller that works in it between the
// begin and the end of Inside. It is for one goroutine.
type API struct {
	*testing.T
	Client *fake.Clientset
	// Events are those of the controller's process.
	Events *record.FakeRecorder
	// Writes is how many the controller tried.
	Writes int
	// DieAt is the write that does not happen any more, nor any later one; 0: none.
	DieAt int

	kinds    map[schema.GroupVersionKind]schema.GroupVersionResource
	versions int // 0: objects have none
	inside   bool
	caches   map[schema.GroupVersionResource]cache.Indexer
}

// New returns an API of kinds over a client. Without versions objects keep what they have.
func New(t *testing.T, client *fake.Clientset, versions bool, kinds map[string]schema.GroupVersionResource) *API {
	a := &API{T: t, Client: client, kinds: map[schema.GroupVersionKind]schema.GroupVersionResource{}}
	if versions {
		a.versions = 100
	}
	for kind, resource := range kinds {
		a.kinds[resource.GroupVersion().WithKind(kind)] = resource
	}
	return a
}

// Dies has the writes with a verb fail once the process is dead, and be done by react
// before. A react of nil is that of the client.
func (a *API) Dies(verb string, react k8stesting.ReactionFunc) {
	a.Client.PrependReactor(verb, "*", func(action k8stesting.Action) (bool, runtime.Object, error) {
		if a.inside {
			if a.Writes++; a.DieAt > 0 && a.Writes >= a.DieAt {
				return true, nil, ErrDead
			}
		}
		if react == nil {
			return false, nil, nil
		}
		return react(action)
	})
}

// Working says whether the controller is at work.
func (a *API) Working() bool { return a.inside }

// Version is that of the last write.
func (a *API) Version() int { return a.versions }

// Update does an update: of the latest version only, of the status by its subresource
// alone, and what was deleted goes with its last finalizer.
func (a *API) Update(action k8stesting.Action) (bool, runtime.Object, error) {
	given := action.(k8stesting.UpdateAction).GetObject().DeepCopyObject()
	o, resource := given.(metav1.Object), action.GetResource()
	found, err := a.Client.Tracker().Get(resource, action.GetNamespace(), o.GetName())
	if err != nil {
		return true, nil, err
	}
	was := found.DeepCopyObject()
	if old := was.(metav1.Object); old.GetResourceVersion() != o.GetResourceVersion() || old.GetUID() != o.GetUID() {
		return true, nil, apierrors.NewConflict(resource.GroupResource(), o.GetName(), errors.New("changed"))
	}
	if action.GetSubresource() == "status" {
		setStatus(was, given)
		given = was
	} else {
		setStatus(given, was)
	}
	if o := given.(metav1.Object); o.GetDeletionTimestamp() != nil && len(o.GetFinalizers()) == 0 {
		a.Remove(given)
		return true, given, nil
	}
	a.Put(given)
	return true, given, nil
}

// setStatus gives an object the status of another of its kind, if the kind has one.
func setStatus(of, from runtime.Object) {
	if status := reflect.ValueOf(of).Elem().FieldByName("Status"); status.IsValid() {
		status.Set(reflect.ValueOf(from).Elem().FieldByName("Status"))
	}
}

func (a *API) resource(obj runtime.Object) schema.GroupVersionResource {
	a.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		a.Fatal(err)
	}
	resource, ok := a.kinds[kinds[0]]
	if !ok {
		a.Fatalf("%s is none of the kinds of this API", kinds[0])
	}
	return resource
}

// Put stores an object with a new version, as any writer does.
func (a *API) Put(obj runtime.Object) {
	a.Helper()
	o := obj.(metav1.Object)
	if a.versions > 0 {
		a.versions++
		o.SetResourceVersion(strconv.Itoa(a.versions))
	}
	resource := a.resource(obj)
	err := a.Client.Tracker().Update(resource, obj.DeepCopyObject(), o.GetNamespace())
	if apierrors.IsNotFound(err) {
		err = a.Client.Tracker().Create(resource, obj.DeepCopyObject(), o.GetNamespace())
	}
	if err != nil {
		a.Fatal(err)
	}
}

// Remove takes an object away at once.
func (a *API) Remove(obj runtime.Object) {
	a.Helper()
	o := obj.(metav1.Object)
	if err := a.Client.Tracker().Delete(a.resource(obj), o.GetNamespace(), o.GetName()); err != nil {
		a.Fatal(err)
	}
}

// Get returns a copy of an object; the zero T: there is none.
func Get[T runtime.Object](a *API, resource schema.GroupVersionResource, namespace, name string) (none T) {
	obj, err := a.Client.Tracker().Get(resource, namespace, name)
	if err != nil {
		return none
	}
	return obj.DeepCopyObject().(T)
}

// List returns copies of all objects of a resource.
func List[T runtime.Object](a *API, resource schema.GroupVersionResource) (all []T) {
	a.Helper()
	for kind, of := range a.kinds {
		if of != resource {
			continue
		}
		list, err := a.Client.Tracker().List(resource, kind, "")
		if err != nil {
			a.Fatal(err)
		}
		objects, err := meta.ExtractList(list)
		if err != nil {
			a.Fatal(err)
		}
		for _, o := range objects {
			all = append(all, o.DeepCopyObject().(T))
		}
	}
	return all
}

// Begin is the start of a new process of the controller with caches of its own: its writes
// happen again, and it has told nothing. The caller gives Events to the controller.
func (a *API) Begin(caches map[schema.GroupVersionResource]cache.Indexer) {
	a.Helper()
	a.caches, a.DieAt, a.Events = caches, 0, record.NewFakeRecorder(100_000)
	a.Refresh()
}

// Cache is the controller's of a resource.
func (a *API) Cache(resource schema.GroupVersionResource) cache.Indexer { return a.caches[resource] }

// Refresh brings the caches up to date.
func (a *API) Refresh() {
	a.Helper()
	for resource, c := range a.caches {
		var all []any
		for _, o := range List[runtime.Object](a, resource) {
			all = append(all, o)
		}
		if err := c.Replace(all, ""); err != nil {
			a.Fatal(err)
		}
	}
}

// Inside lets the controller work.
func (a *API) Inside(work func() error) error {
	a.inside = true
	defer func() { a.inside = false }()
	return work()
}

// Told is what the controller has told since it was asked last, a line each.
func (a *API) Told() string {
	var all []string
	for {
		select {
		case e := <-a.Events.Events:
			all = append(all, e)
		default:
			return strings.Join(all, "\n")
		}
	}
}
