package audit

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	pluginlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/apiserver/plugin/pkg/audit/truncate"
	pluginwebhook "k8s.io/apiserver/plugin/pkg/audit/webhook"
)

// Options say what is recorded and where. Without a LogPath and a WebhookConfig
// nothing is.
type Options struct {
	// PolicyFile is of kind Policy; empty: the default policy.
	PolicyFile string
	// LogPath is the file that events go to, one a line as JSON, mode 0600. At
	// MaxSize bytes it is put aside under a name with the time; MaxBackups of those
	// are kept, for MaxAge at most. 0: no limit of that kind.
	LogPath    string
	MaxSize    int64
	MaxBackups int
	MaxAge     time.Duration
	// WebhookConfig is a kubeconfig of the server that events are posted to.
	WebhookConfig string
}

// Audit is what the handler chain needs; the zero value records nothing.
type Audit struct {
	Backend audit.Backend
	Policy  audit.PolicyRuleEvaluator
}

//go:embed policy.yaml
var defaultPolicy []byte

// Upstream's figures.
const (
	bufferSize      = 10_000
	webhookBatch    = 400
	webhookWait     = 30 * time.Second
	webhookQPS      = 10
	webhookBurst    = 15
	largestEvent    = 100 << 10
	largestRequest  = 10 << 20
	megabyte        = 1 << 20
	hoursOfADay     = 24
	smallestLogSize = megabyte
)

// New reads the policy and makes the backends. Nothing runs before the server does.
func New(o Options) (Audit, error) {
	if o.LogPath == "" && o.WebhookConfig == "" {
		return Audit{}, nil
	}
	rules, err := readPolicy(o.PolicyFile)
	if err != nil {
		return Audit{}, err
	}
	out := Audit{Policy: secretless{policy.NewPolicyRuleEvaluator(rules)}}
	var backends []audit.Backend
	if o.LogPath != "" {
		log, err := openLog(o)
		if err != nil {
			return Audit{}, err
		}
		backends = append(backends, log)
	}
	if o.WebhookConfig != "" {
		hook, err := pluginwebhook.NewBackend(o.WebhookConfig, auditv1.SchemeGroupVersion,
			webhook.DefaultRetryBackoffWithInitialDelay(pluginwebhook.DefaultInitialBackoffDelay), nil)
		if err != nil {
			return Audit{}, fmt.Errorf("audit: webhook %s: %w", o.WebhookConfig, err)
		}
		hook = buffered.NewBackend(hook, buffered.BatchConfig{
			BufferSize: bufferSize, MaxBatchSize: webhookBatch, MaxBatchWait: webhookWait,
			ThrottleEnable: true, ThrottleQPS: webhookQPS, ThrottleBurst: webhookBurst, AsyncDelegate: true,
		})
		backends = append(backends, truncate.NewBackend(hook, truncate.Config{MaxEventSize: largestEvent, MaxBatchSize: largestRequest}, auditv1.SchemeGroupVersion))
	}
	out.Backend = audit.Union(backends...)
	return out, nil
}

// CheckPolicy reads a policy as New does.
func CheckPolicy(file string) error {
	_, err := readPolicy(file)
	return err
}

func readPolicy(file string) (*auditinternal.Policy, error) {
	if file == "" {
		return policy.LoadPolicyFromBytes(defaultPolicy)
	}
	rules, err := policy.LoadPolicyFromFile(file)
	if err != nil {
		return nil, fmt.Errorf("audit: policy %s: %w", file, err)
	}
	return rules, nil
}

// openLog fails on a path that cannot be written, rather than with the first event.
func openLog(o Options) (audit.Backend, error) {
	if err := os.MkdirAll(filepath.Dir(o.LogPath), 0o700); err != nil {
		return nil, fmt.Errorf("audit: folder of the log %s: %w", o.LogPath, err)
	}
	f, err := os.OpenFile(o.LogPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("audit: log %s: %w", o.LogPath, err)
	}
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("audit: log %s: %w", o.LogPath, err)
	}
	size := o.MaxSize
	if size > 0 {
		size = max(size, smallestLogSize) / megabyte
	} else {
		size = 1 << 30 // lumberjack's 0 is its default
	}
	file := &lumberjack.Logger{
		Filename: o.LogPath, MaxSize: int(size), MaxBackups: o.MaxBackups, MaxAge: int(o.MaxAge.Hours() / hoursOfADay),
	}
	log := pluginlog.NewBackend(file, pluginlog.FormatJson, auditv1.SchemeGroupVersion)
	// A request does not wait for the disk. Batches of files gain nothing.
	return buffered.NewBackend(log, buffered.BatchConfig{BufferSize: bufferSize, MaxBatchSize: 1}), nil
}

// secretless holds a policy to what may be known: bodies that are secrets are left
// out, whatever it says.
type secretless struct{ audit.PolicyRuleEvaluator }

// never are the resources whose bodies hold credentials, by group.
var never = map[string]map[string]bool{
	"":                      {"secrets": true, "serviceaccounts/token": true},
	"authentication.k8s.io": {"tokenreviews": true},
}

func (s secretless) EvaluatePolicyRule(a authorizer.Attributes) audit.RequestAuditConfig {
	c := s.PolicyRuleEvaluator.EvaluatePolicyRule(a)
	resource := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	if auditinternal.LevelMetadata.Less(c.Level) && a.IsResourceRequest() && never[a.GetAPIGroup()][resource] {
		c.Level = auditinternal.LevelMetadata
	}
	return c
}
