package eventratelimit

import (
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// Kind and version of the configuration.
const (
	Kind    = "Configuration"
	Version = "eventratelimit.admission.k8s.io/v1alpha1"
)

// LimitType is what a limit counts by.
type LimitType string

// The types of limits: one bucket of the server, or one of each namespace, user, or
// source and object.
const (
	Server          LimitType = "Server"
	Namespace       LimitType = "Namespace"
	User            LimitType = "User"
	SourceAndObject LimitType = "SourceAndObject"
)

// Configuration of the plugin.
type Configuration struct {
	metav1.TypeMeta `json:",inline"`
	Limits          []Limit `json:"limits"`
}

// Limit of one type.
type Limit struct {
	Type LimitType `json:"type"`
	// QPS are the events of a second, Burst those at once.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is how many buckets are kept; 0 is 4096. One that falls out starts anew.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// defaultCacheSize is upstream's.
const defaultCacheSize = 4096

// Load reads a configuration in YAML or JSON, and says all that is wrong with it.
func Load(data []byte) (*Configuration, error) {
	if len(data) == 0 {
		return nil, errors.New("it has no configuration: set admission.eventRateLimit or admission.eventRateLimitFile")
	}
	c := &Configuration{}
	if err := yaml.UnmarshalStrict(data, c); err != nil {
		return nil, fmt.Errorf("read the configuration: %w", err)
	}
	if c.Kind != Kind || c.APIVersion != Version {
		return nil, fmt.Errorf("the configuration is of kind %q in version %q; it must be %s in %s", c.Kind, c.APIVersion, Kind, Version)
	}
	if err := validate(c).ToAggregate(); err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return c, nil
}

func validate(c *Configuration) field.ErrorList {
	limits := field.NewPath("limits")
	if len(c.Limits) == 0 {
		return field.ErrorList{field.Invalid(limits, c.Limits, "must not be empty")}
	}
	var out field.ErrorList
	for i, l := range c.Limits {
		path := limits.Index(i)
		switch l.Type {
		case Server, Namespace, User, SourceAndObject:
		default:
			out = append(out, field.NotSupported(path.Child("type"), l.Type, []LimitType{Server, Namespace, User, SourceAndObject}))
		}
		if l.Burst <= 0 {
			out = append(out, field.Invalid(path.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			out = append(out, field.Invalid(path.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != Server && l.CacheSize < 0 {
			out = append(out, field.Invalid(path.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return out
}
