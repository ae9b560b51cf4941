package config

import (
	"time"

	"pintle.dev/pintle/sdk/footprint"
)

// Default returns the configuration that holds where neither file nor
// environment says otherwise. It selects no plugin: policy is the file's.
func Default() *Config {
	return &Config{
		APIVersion: APIVersion,
		Kind:       Kind,
		DataDir:    ".data",
		Logging:    Logging{Level: "info", Format: "text"},
		API: API{
			BindAddress:         "0.0.0.0",
			Port:                6443,
			ServiceCIDR:         "10.96.0.0/16",
			NodePortRange:       "30000-32767",
			MaxInflight:         400,
			MaxMutatingInflight: 200,
			Fairness:            true,
			MaxBodies:           128 << 20,
			MaxWatches:          10000,
			MaxUserWatches:      2000,
			MaxConnections:      5000,
			MaxUserConnections:  500,
			MaxPeerConnections:  500,
		},
		Auth: Auth{MaxTokenExpiration: 24 * time.Hour, SigningDuration: 365 * 24 * time.Hour, TokenWebhook: TokenWebhook{Version: "v1", CacheTTL: 2 * time.Minute},
			RequestHeader: RequestHeader{UsernameHeaders: []string{"X-Remote-User"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraHeaderPrefixes: []string{"X-Remote-Extra-"}}},
		Audit:  Audit{LogMaxSize: 100 << 20, LogMaxBackups: 5, LogMaxAge: 30 * 24 * time.Hour},
		Memory: Memory{Garbage: footprint.DefaultGarbage},
		Store: Store{
			Backend:          BackendBadger,
			Etcd:             Etcd{Prefix: "/registry"},
			HistoryRetention: 5 * time.Minute,
			HistoryRevisions: 1_000_000,
			ListEncodings:    32 << 20,
			MinFree:          64 << 20,
		},
		Plugins: Plugins{
			CallTimeout:  time.Second,
			StartTimeout: time.Minute, // as go-plugin has it
			MemoryLimit:  256 << 20,
			ProcessMem:   2 << 30,
			Processes:    512,
			Calls:        2000,
			// Of the ids that neither distributions nor systemd give out.
			UIDRange:   "60706-61183",
			Signatures: "off",
			WASMWorker: "installed",
		},
		Scheduler: Scheduler{
			Enabled:        true,
			InitialBackoff: time.Second,
			MaxBackoff:     10 * time.Second,
			Unschedulable:  5 * time.Minute,
		},
		// As kube-scheduler's and kube-controller-manager's.
		Election: Election{LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second},
		Node: Node{
			KubeletPort:               10250,
			PodCIDR:                   "10.244.0.0/24",
			MaxPods:                   110,
			ClusterDomain:             "cluster.local",
			EnforceNodeAllocatable:    []string{"pods"},
			CgroupRoot:                "/",
			EvictionHard:              DefaultEvictionHard(),
			PressureTransition:        5 * time.Minute,
			SerializeImagePulls:       true,
			ImageMinimumGCAge:         2 * time.Minute,
			ImageGCHigh:               85,
			ImageGCLow:                80,
			ContainerLogMaxSize:       10 << 20,
			ContainerLogMaxFiles:      5,
			MaxPerPodContainer:        1,
			MaxDeadContainers:         -1,
			CrashLoopBackOff:          CrashBackOff{MaxContainerRestartPeriod: 5 * time.Minute},
			SyncFrequency:             time.Minute,
			NodeStatusUpdateFrequency: 10 * time.Second,
			NodeStatusReportFrequency: 5 * time.Minute,
			NodeLeaseDurationSeconds:  40,

			OnStop: KeepPods, ShutdownGracePeriod: 30 * time.Second,
			ImagePullVerification: "NeverVerifyPreloadedImages",
			SeccompDefault:        true,
		},
		Hollow: Hollow{Prefix: "hollow-", LeaseDuration: 40 * time.Second, StatusReportFrequency: 5 * time.Minute},
	}
}
