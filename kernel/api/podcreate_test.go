package api_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// richPod has a field of many kinds.
func richPod(name string) *corev1.Pod {
	yes, user := true, int64(1000)
	p := pod(name)
	p.Annotations = map[string]string{"a.example/b": "c", "d": ""}
	p.Finalizers = []string{"example.com/keep"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "u", Controller: &yes}}
	p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: &user}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "i", VolumeMounts: []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}}}
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "b"}, {Name: "C"}}
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Message: "is not taken"}
	return p
}

// machinery makes clients of which every create goes the machinery's way: it asks to be
// formatted, which the short way leaves to that.
type machinery struct{ http.RoundTripper }

func (m machinery) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodPost {
		req = req.Clone(req.Context())
		q := req.URL.Query()
		q.Set("timeout", "30s")
		req.URL.RawQuery = q.Encode()
	}
	return m.RoundTripper.RoundTrip(req)
}

// TestPodCreateWays creates the same pods the short way and the machinery's: all
// that is not an identity or a time is to be equal, the faults too.
func TestPodCreateWays(t *testing.T) {
	s := start(t, t.TempDir())
	config := func(contentType string) *rest.Config {
		c := s.ClientConfig(admin)
		c.ContentType, c.AcceptContentTypes = contentType, contentType
		c.UserAgent = "way\x01s of/1.2"
		return c
	}
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		short := kubernetes.NewForConfigOrDie(config(contentType)).CoreV1().Pods("default")
		c := config(contentType)
		c.Wrap(func(rt http.RoundTripper) http.RoundTripper { return machinery{rt} })
		long := kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default")
		cases := map[string]func() *corev1.Pod{
			"plain":     func() *corev1.Pod { return pod("plain") },
			"rich":      func() *corev1.Pod { return richPod("rich") },
			"again":     func() *corev1.Pod { return richPod("again") },
			"generated": func() *corev1.Pod { p := richPod(""); p.GenerateName = "gen-"; return p },
			"elsewhere": func() *corev1.Pod { p := pod("elsewhere"); p.Namespace = "other"; return p },
			"system":    func() *corev1.Pod { p := pod("system"); p.UID = "mine"; p.ResourceVersion = ""; return p },
			"versioned": func() *corev1.Pod { p := pod("versioned"); p.ResourceVersion = "5"; return p },
			"invalid":   func() *corev1.Pod { p := pod("invalid"); p.Spec.Containers = nil; return p },
			"bad name":  func() *corev1.Pod { return pod("Not_a_name") },
			"no class":  func() *corev1.Pod { p := pod("no-class"); p.Spec.PriorityClassName = "absent"; return p },
			"managed": func() *corev1.Pod {
				p := pod("managed")
				p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1",
					FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:metadata":{"f:labels":{"f:app":{}}}}`)}}}
				return p
			},
			"two owners": func() *corev1.Pod {
				p := richPod("two-owners")
				p.OwnerReferences = append(p.OwnerReferences, p.OwnerReferences[0])
				return p
			},
		}
		for name, of := range cases {
			for _, manager := range []string{"", "somebody", strings.Repeat("x", 200)} {
				t.Run(fmt.Sprintf("%s %s by %.10s", contentType, name, manager), func(t *testing.T) {
					options := metav1.CreateOptions{FieldManager: manager}
					a, errA := createAndRemove(t, short, of(), options)
					b, errB := createAndRemove(t, long, of(), options)
					if (errA == nil) != (errB == nil) || errA != nil && errA.Error() != errB.Error() {
						t.Fatalf("short: %v\nlong: %v", errA, errB)
					}
					if errA != nil {
						if x, y := apierrors.ReasonForError(errA), apierrors.ReasonForError(errB); x != y {
							t.Fatalf("reasons %s and %s", x, y)
						}
						return
					}
					if !reflect.DeepEqual(identityOff(a), identityOff(b)) {
						t.Errorf("short:\n%+v\nlong:\n%+v", identityOff(a), identityOff(b))
					}
				})
			}
		}
	}
}

// TestPodCreateAnswer: who creates a pod gets byte for byte what who reads it gets, in
// each format, also where the answer is made of what was stored.
func TestPodCreateAnswer(t *testing.T) {
	s := start(t, t.TempDir())
	n := 0
	for _, sent := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		for _, accepted := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			for _, of := range []func(string) *corev1.Pod{pod, richPod} {
				n++
				c := s.ClientConfig(admin)
				c.ContentType, c.AcceptContentTypes = sent, accepted
				client := kubernetes.NewForConfigOrDie(c).CoreV1().RESTClient()
				name := fmt.Sprintf("answer-%d", n)
				answer, err := client.Post().Namespace("default").Resource("pods").Body(of(name)).Do(t.Context()).Raw()
				if err != nil {
					t.Fatal(err)
				}
				read, err := client.Get().Namespace("default").Resource("pods").Name(name).Do(t.Context()).Raw()
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(answer, read) {
					t.Errorf("%s, answered in %s:\n%q, read\n%q", sent, accepted, answer, read)
				}
			}
		}
	}
}

type podCreater interface {
	Create(context.Context, *corev1.Pod, metav1.CreateOptions) (*corev1.Pod, error)
	Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error)
	Update(context.Context, *corev1.Pod, metav1.UpdateOptions) (*corev1.Pod, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// createAndRemove returns what the create answered, which is to be what a get does.
func createAndRemove(t *testing.T, pods podCreater, p *corev1.Pod, o metav1.CreateOptions) (*corev1.Pod, error) {
	t.Helper()
	out, err := pods.Create(t.Context(), p, o)
	if err != nil {
		return nil, err
	}
	got, err := pods.Get(t.Context(), out.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, out) {
		t.Errorf("answered:\n%+v\nstored:\n%+v", out, got)
	}
	if len(got.Finalizers) > 0 {
		got.Finalizers = nil
		if _, err := pods.Update(t.Context(), got, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := pods.Delete(t.Context(), out.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}); err != nil {
		t.Fatal(err)
	}
	return out, nil
}

// identityOff takes off what two creates can never have in common.
func identityOff(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	if p.GenerateName != "" {
		p.Name = ""
	}
	p.UID, p.ResourceVersion, p.CreationTimestamp = "", "", metav1.Time{}
	for i := range p.ManagedFields {
		p.ManagedFields[i].Time = nil
	}
	p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return strings.HasPrefix(v.Name, "kube-api-access-") })
	strip := func(all []corev1.Container) {
		for i := range all {
			all[i].VolumeMounts = slices.DeleteFunc(all[i].VolumeMounts, func(m corev1.VolumeMount) bool { return strings.HasPrefix(m.Name, "kube-api-access-") })
		}
	}
	strip(p.Spec.InitContainers)
	strip(p.Spec.Containers)
	return p
}

// TestPodCreateBytes sends bodies that no client makes, both ways.
func TestPodCreateBytes(t *testing.T) {
	s := start(t, t.TempDir())
	c, err := rest.HTTPClientFor(s.ClientConfig(admin))
	if err != nil {
		t.Fatal(err)
	}
	const plain = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	for name, body := range map[string]string{
		"plain": plain, "empty": "", "not JSON": "{", "another kind": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"b"}}`,
		"another version": strings.Replace(plain, `"v1"`, `"v2"`, 1), "no kind": strings.Replace(plain, `"kind":"Pod",`, "", 1),
		"unknown field": strings.Replace(plain, `"spec":{`, `"spec":{"nothing":1,`, 1), "duplicate field": strings.Replace(plain, `"name":"b"`, `"name":"a","name":"b"`, 1),
		"too large": strings.Replace(plain, `"name":"b"`, `"name":"b","annotations":{"a":"`+strings.Repeat("x", 3<<20)+`"}`, 1),
		"large":     strings.Replace(plain, `"name":"b"`, `"name":"b","annotations":{"a":"`+strings.Repeat("x", 200<<10)+`"}`, 1),
	} {
		for _, query := range []string{"", "fieldValidation=Strict", "fieldValidation=Ignore", "fieldValidation=Odd", "dryRun=All", "pretty=true", "fieldManager=a&fieldManager=b"} {
			for _, accept := range []string{"application/json", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json", "application/yaml", "application/none"} {
				var got [2]string
				for i, more := range []string{"", "timeout=30s"} {
					req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://inprocess/api/v1/namespaces/default/pods?"+strings.Trim(query+"&"+more, "&"), bytes.NewReader([]byte(body)))
					if err != nil {
						t.Fatal(err)
					}
					req.Header.Set("Content-Type", "application/json")
					req.Header.Set("Accept", accept)
					resp, err := c.Do(req)
					if err != nil {
						t.Fatal(err)
					}
					text := new(bytes.Buffer)
					if _, err := text.ReadFrom(resp.Body); err != nil {
						t.Fatal(err)
					}
					resp.Body.Close()
					got[i] = fmt.Sprint(resp.StatusCode, resp.Header.Get("Content-Type"), resp.Header.Values("Warning"))
					if resp.StatusCode != http.StatusCreated {
						got[i] += text.String()
						continue
					}
					req, _ = http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://inprocess/api/v1/namespaces/default/pods/b?gracePeriodSeconds=0", nil)
					if resp, err = c.Do(req); err != nil {
						t.Fatal(err)
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if got[0] != got[1] {
					t.Errorf("%s?%s accepting %s\nshort: %.300s\nlong:  %.300s", name, query, accept, got[0], got[1])
				}
			}
		}
	}
}

// A created pod is kept in memory as it came: it is what a server that has only the
// stored bytes makes of them.
func TestPodCreateKeepsWhatIsStored(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]*corev1.Pod{}
	t.Run("create", func(t *testing.T) {
		s := start(t, dir)
		for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
			c := s.ClientConfig(admin)
			c.ContentType = contentType
			pods := kubernetes.NewForConfigOrDie(c).CoreV1().Pods("default")
			kind := strings.TrimPrefix(contentType, "application/")
			for name, p := range map[string]*corev1.Pod{"plain": pod(""), "rich": richPod(""), "gated": gatedPod(), "empty": emptyPod(), "large": largePod()} {
				p.Name = name + "-" + strings.ReplaceAll(kind, ".", "-")
				if _, err := pods.Create(t.Context(), p, metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
				kept[p.Name] = stored(t, s, p.Name)
			}
		}
	})
	t.Run("again", func(t *testing.T) {
		s := start(t, dir)
		for name, pod := range kept {
			got := stored(t, s, name)
			if !apiequality.Semantic.DeepEqual(got, pod) {
				t.Errorf("%s decoded:\n%#v\nkept:\n%#v", name, got, pod)
			}
			if a, b := got.CreationTimestamp, pod.CreationTimestamp; !reflect.DeepEqual(a, b) {
				t.Errorf("%s: created at %#v, kept as %#v", name, a, b)
			}
			for i := range pod.ManagedFields {
				if a, b := got.ManagedFields[i].Time, pod.ManagedFields[i].Time; !reflect.DeepEqual(a, b) {
					t.Errorf("%s: managed at %#v, kept as %#v", name, a, b)
				}
			}
		}
	})
}

func gatedPod() *corev1.Pod {
	p := richPod("")
	p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	return p
}

func emptyPod() *corev1.Pod {
	p := pod("")
	p.Labels, p.Annotations, p.Spec.NodeSelector = map[string]string{}, map[string]string{}, map[string]string{}
	p.Spec.Tolerations, p.Spec.Containers[0].Args = []corev1.Toleration{}, []string{}
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{}
	return p
}

func largePod() *corev1.Pod {
	p := richPod("")
	p.Annotations["large"] = strings.Repeat("x", 20<<10)
	return p
}
