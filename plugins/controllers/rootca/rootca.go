package rootca

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/cert"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const (
	// ConfigMapName is the name of the ConfigMap in each namespace.
	ConfigMapName = "kube-root-ca.crt"

	bundleKey             = "ca.crt"
	descriptionAnnotation = "kubernetes.io/description"
	description           = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."

	maxBundle = 1 << 20 // what a ConfigMap may hold
)

// Config says where the bundle is; exactly one of its keys is set.
type Config struct {
	CABundle string `json:"caBundle,omitempty"` // PEM certificates
	CAFile   string `json:"caFile,omitempty"`   // path of a file of them
}

// publisher is the controller.
type publisher struct {
	client     kubernetes.Interface
	data       map[string]string
	configMaps corelisters.ConfigMapLister
	namespaces corelisters.NamespaceLister
	informers  [2]cache.SharedIndexInformer // ConfigMaps, namespaces
	loop       *queue.Loop[string]          // of namespace names
}

// New builds the controller from a Config in JSON.
func New(c *controller.Context) (controller.Runner, error) {
	bundle, err := readBundle(c.Config)
	if err != nil {
		return nil, fmt.Errorf("root-ca: %w", err)
	}
	cm, ns := c.Informers.Core().V1().ConfigMaps(), c.Informers.Core().V1().Namespaces()
	p := &publisher{
		client: c.Client, data: map[string]string{bundleKey: bundle},
		configMaps: cm.Lister(), namespaces: ns.Lister(),
		informers: [2]cache.SharedIndexInformer{cm.Informer(), ns.Informer()},
	}
	p.loop = queue.New(c.Logger, p.sync, queue.Options[string]{Name: "root_ca_cert_publisher"})
	return p, nil
}

func readBundle(config []byte) (string, error) {
	var c Config
	if len(config) > 0 {
		d := json.NewDecoder(bytes.NewReader(config))
		d.DisallowUnknownFields()
		if err := d.Decode(&c); err != nil {
			return "", fmt.Errorf("configuration: %w", err)
		}
	}
	bundle := []byte(c.CABundle)
	switch {
	case c.CABundle != "" && c.CAFile != "":
		return "", errors.New("configuration: caBundle and caFile are both set; leave one out")
	case c.CABundle == "" && c.CAFile == "":
		return "", errors.New("configuration: set caBundle (PEM) or caFile (path)")
	case c.CAFile != "":
		f, err := os.Open(c.CAFile)
		if err != nil {
			return "", fmt.Errorf("caFile: %w", err)
		}
		defer f.Close()
		if bundle, err = io.ReadAll(io.LimitReader(f, maxBundle+1)); err != nil {
			return "", fmt.Errorf("caFile: %w", err)
		}
	}
	if len(bundle) > maxBundle {
		return "", fmt.Errorf("the bundle is larger than %d bytes", maxBundle)
	}
	if _, err := cert.ParseCertsPEM(bundle); err != nil {
		return "", fmt.Errorf("the bundle: %w", err)
	}
	return string(bundle), nil
}

// Run works until ctx ends.
func (p *publisher) Run(ctx context.Context) error {
	return p.loop.Follow(ctx,
		queue.Watch{Informer: p.informers[0], Handler: queue.On(func(old, current *corev1.ConfigMap) {
			// A new one needs no look: it is this controller's, or the update that
			// put it there found it right.
			if old != nil && old.Name == ConfigMapName {
				p.loop.Add(old.Namespace)
			}
		})},
		queue.Watch{Informer: p.informers[1], Handler: queue.On(func(_, current *corev1.Namespace) {
			if current != nil {
				p.loop.Add(current.Name)
			}
		})})
}

func (p *publisher) sync(ctx context.Context, name string) error {
	ns, err := p.namespaces.Get(name)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if ns.Status.Phase != corev1.NamespaceActive || ns.DeletionTimestamp != nil {
		return nil
	}
	have, err := p.configMaps.ConfigMaps(name).Get(ConfigMapName)
	if apierrors.IsNotFound(err) {
		_, err = p.client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: ConfigMapName, Namespace: name, Annotations: map[string]string{descriptionAnnotation: description}},
			Data:       maps.Clone(p.data),
		}, metav1.CreateOptions{})
		if err == nil || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil // the namespace went away meanwhile, or all is well
		}
		return fmt.Errorf("configmap %s/%s: create: %w", name, ConfigMapName, err)
	}
	if err != nil {
		return err
	}
	if maps.Equal(have.Data, p.data) && have.Annotations[descriptionAnnotation] != "" {
		return nil
	}
	want := have.DeepCopy()
	want.Data = maps.Clone(p.data)
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, descriptionAnnotation, description)
	if _, err := p.client.CoreV1().ConfigMaps(name).Update(ctx, want, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("configmap %s/%s: update: %w", name, ConfigMapName, err)
	}
	return nil
}
