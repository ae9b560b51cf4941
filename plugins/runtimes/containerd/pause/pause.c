/*
 * pause is the only process of a sandbox container: it holds the pod's
 * namespaces open, and with a shared PID namespace, where it is process 1, it
 * reaps what the pod's containers leave behind.
 */
#include <signal.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int signum) {
	(void)signum;
	_exit(0);
}

static void reap(int signum) {
	(void)signum;
	while (waitpid(-1, NULL, WNOHANG) > 0) {
	}
}

int main(void) {
	struct sigaction on_stop = {.sa_handler = stop};
	struct sigaction on_child = {.sa_handler = reap, .sa_flags = SA_NOCLDSTOP};

	if (sigaction(SIGINT, &on_stop, NULL) || sigaction(SIGTERM, &on_stop, NULL) ||
	    sigaction(SIGCHLD, &on_child, NULL)) {
		return 1;
	}
	for (;;) {
		pause();
	}
}
