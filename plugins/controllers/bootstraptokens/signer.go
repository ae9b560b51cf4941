package bootstraptokens

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	"k8s.io/cluster-bootstrap/token/jws"
	"k8s.io/cluster-bootstrap/util/secrets"

	"pintle.dev/pintle/plugins/controllers/queue"
	"pintle.dev/pintle/sdk/controller"
)

const clusterInfo = metav1.NamespacePublic + "/" + bootstrapapi.ConfigMapClusterInfo

type signer struct {
	client       kubernetes.Interface
	tokens, info cache.SharedIndexInformer
	loop         *queue.Loop[string]
	log          *slog.Logger
}

// NewSigner builds bootstrapsigner.
func NewSigner(c *controller.Context) (controller.Runner, error) {
	s := &signer{
		client: c.Client, log: c.Logger, tokens: tokensOf(c),
		info: coreinformers.NewFilteredConfigMapInformer(c.Client, metav1.NamespacePublic, 0, cache.Indexers{}, only("metadata.name", bootstrapapi.ConfigMapClusterInfo)),
	}
	s.loop = queue.New(c.Logger, s.sync, queue.Options[string]{Name: "bootstrap_signer_queue", Workers: 1})
	return s, nil
}

// Run signs until ctx ends.
func (s *signer) Run(ctx context.Context) error {
	return follow(ctx, s.loop,
		queue.Watch{Informer: s.tokens, Handler: queue.Every(func(*corev1.Secret) { s.loop.Add(clusterInfo) })},
		queue.Watch{Informer: s.info, Handler: queue.Every(func(*corev1.ConfigMap) { s.loop.Add(clusterInfo) })})
}

// sync makes the signatures of the ConfigMap those of the tokens.
func (s *signer) sync(ctx context.Context, key string) error {
	obj, ok, err := s.info.GetStore().GetByKey(key)
	if err != nil || !ok {
		return err
	}
	have := obj.(*corev1.ConfigMap)
	content, ok := have.Data[bootstrapapi.KubeConfigKey]
	if !ok {
		return nil
	}
	want := make(map[string]string, len(have.Data))
	for k, v := range have.Data {
		if !strings.HasPrefix(k, bootstrapapi.JWSSignatureKeyPrefix) {
			want[k] = v
		}
	}
	for _, obj := range s.tokens.GetStore().List() {
		id, secret, ok := signs(obj.(*corev1.Secret), time.Now())
		if !ok {
			continue
		}
		signature, err := jws.ComputeDetachedSignature(content, id, secret)
		if err != nil {
			return fmt.Errorf("sign configmap %s by token %s: %w", key, id, err)
		}
		want[bootstrapapi.JWSSignatureKeyPrefix+id] = signature
	}
	if maps.Equal(have.Data, want) {
		return nil
	}
	signed := have.DeepCopy()
	signed.Data = want
	_, err = s.client.CoreV1().ConfigMaps(metav1.NamespacePublic).Update(ctx, signed, metav1.UpdateOptions{})
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // both bring an event
		return fmt.Errorf("update configmap %s: %w", key, err)
	}
	return nil
}

// signs gives id and secret of a token that may sign at that time.
func signs(s *corev1.Secret, now time.Time) (id, secret string, ok bool) {
	named, ok := secrets.ParseName(s.Name)
	if !ok || s.Type != bootstrapapi.SecretTypeBootstrapToken {
		return "", "", false
	}
	id, secret = secrets.GetData(s, bootstrapapi.BootstrapTokenIDKey), secrets.GetData(s, bootstrapapi.BootstrapTokenSecretKey)
	return id, secret, id == named && secret != "" && !secrets.HasExpired(s, now) &&
		secrets.GetData(s, bootstrapapi.BootstrapTokenUsageSigningKey) == "true"
}
