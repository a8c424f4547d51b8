// Made by `npm run types` from docs/openapi.json. Not to be changed by hand.

export interface paths {
    "/health/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process runs. */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the node serves. */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What the node counts, for Prometheus. */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/decisions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Decisions of this node about the shards that it leads, or of all nodes; or, with `dry=true`,
         *     those that the balancer would make now.
         */
        get: operations["decisions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dev": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All nodes of `carillon dev`. */
        get: operations["devNodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dev/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Adds a node to those of `carillon dev`. */
        post: operations["addDevNode"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/dev/nodes/{node}/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Starts, stops, kills, pauses or resumes a node of `carillon dev`. */
        post: operations["changeDevNode"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happens, as it happens: a stream of server-sent events (docs/events.md). */
        get: operations["events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/feed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The changes of a keyspace, as they are committed: a stream of server-sent events. */
        get: operations["feed"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/gc": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** From when on keyspaces can be read, and what holds that. */
        get: operations["safePoints"];
        put?: never;
        /**
         * Asks that old versions be collected, within the retention too, but none that a snapshot holds.
         *     Shards follow soon after.
         */
        post: operations["collect"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/history/{keyspace}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The changes of a key, the newest first. */
        get: operations["history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keys/{keyspace}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Keys of a keyspace, page by page. */
        get: operations["keys"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keyspaces": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All keyspaces. */
        get: operations["keyspaces"];
        put?: never;
        /** Makes a keyspace. */
        post: operations["createKeyspace"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/keyspaces/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** One keyspace. */
        get: operations["keyspace"];
        put?: never;
        post?: never;
        /** Removes a keyspace with all its keys. */
        delete: operations["dropKeyspace"];
        options?: never;
        head?: never;
        /** Changes of a keyspace what the body names. */
        patch: operations["changeKeyspace"];
        trace?: never;
    };
    "/v1/kv/{keyspace}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The value of a key as it is; its tag, when it was written and when it ends in headers. */
        get: operations["get"];
        /** Gives a key a value, as durably as its keyspace asks for. */
        put: operations["put"];
        post?: never;
        /** Takes the value of a key away. */
        delete: operations["delete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/level": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The cluster version, and which versions all nodes support. */
        get: operations["clusterVersion"];
        put?: never;
        /** Raises the cluster version. */
        post: operations["raiseClusterVersion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/locks": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Locks that are held, page by page. */
        get: operations["locks"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/locks/{name}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Who holds a lock. */
        get: operations["lock"];
        /** Has a lease last for so long from now on. */
        put: operations["renewLock"];
        /** Takes a lock, or waits for it. Its token is larger than those of all holders before. */
        post: operations["acquireLock"];
        /** Releases a lock. */
        delete: operations["releaseLock"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What this node counts, or all nodes: numbers and histograms, without labels. */
        get: operations["metricsInShort"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/mget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Values of several keys: as of one past time, or the newest as of one moment. */
        post: operations["getMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All members. */
        get: operations["nodes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/nodes/{node}/{action}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How far a node's drain is, and what it waits for. */
        get: operations["drainOfNode"];
        put?: never;
        /** Changes a node's admin state. */
        post: operations["changeNode"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/prove": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether each shard keeps a majority, whichever node, failure domain or two nodes are lost. */
        get: operations["prove"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/route/{keyspace}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How the owner of a key is found, by one lookup or by all of them. */
        get: operations["route"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shards": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All shards, or those of one keyspace, a page at a time. */
        get: operations["shards"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shards/{shard}/merge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Merges a shard with its right neighbour. */
        post: operations["mergeShard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/shards/{shard}/split": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Splits a shard. */
        post: operations["splitShard"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All snapshots that are kept. */
        get: operations["snapshots"];
        put?: never;
        /** Takes a snapshot: its token is a time that every read takes, and that stays readable. */
        post: operations["takeSnapshot"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/snapshots/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Keeps a snapshot for longer. What is left of its time is never cut. */
        put: operations["renewSnapshot"];
        post?: never;
        /** Releases a snapshot. */
        delete: operations["releaseSnapshot"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How the node is, and whether all is well. */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The topics of a keyspace. */
        get: operations["topics"];
        put?: never;
        /** Makes a topic. One that is there with the same settings is left as it is. */
        post: operations["createTopic"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A topic, with its groups. */
        get: operations["topic"];
        put?: never;
        post?: never;
        /**
         * Deletes a topic, with its messages and groups. Nobody can use it from the beginning on; if the
         *     answer does not come, asking again goes on.
         */
        delete: operations["deleteTopic"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/groups/{group}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Makes a group, whose members share the topic's messages. One that is there gets these settings,
         *     and goes on where it is.
         */
        put: operations["subscribe"];
        post?: never;
        /** Ends a group. */
        delete: operations["unsubscribe"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/groups/{group}/ack": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Says what became of messages that were handed out. */
        post: operations["acknowledge"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/groups/{group}/stream": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Hands out messages of a group as they are published: a stream of server-sent events. */
        get: operations["streamMessages"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/groups/{group}/take": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hands out messages to a member of a group, or waits for one: each has to be acknowledged in
         *     time, or is handed out again.
         */
        post: operations["take"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/topics/{topic}/messages": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Publishes messages, all at one moment: they get numbers one behind the other. */
        post: operations["publish"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/txn": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Compares, then does the one or the other: all of it at one moment. */
        post: operations["transact"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/txn/begin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Begins a transaction that takes several requests. */
        post: operations["begin"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/txn/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Runs operations of a transaction. */
        post: operations["run"];
        /** Rolls a transaction back: nothing of it is done. */
        delete: operations["rollback"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/txn/{id}/commit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Commits a transaction: all of it is done, or nothing. */
        post: operations["commit"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/clone": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Makes a volume that begins with the blocks that another one had at a time, and shares them. */
        post: operations["cloneVolume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/volumes/{volume}/flatten": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Copies some of the blocks that a clone shares with its source. Once it has all, it needs its
         *     source no more. Each request does a part; ask again until it is done.
         */
        post: operations["flattenVolume"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description `POST /v1/topics/{topic}/groups/{group}/ack`. */
        AckBody: {
            /** @description Numbers of messages that are given back: they are delivered again at once. */
            back?: components["schemas"]["WholeNumber"][];
            /** @description Numbers of messages that are done: they are not delivered again. */
            done?: components["schemas"]["WholeNumber"][];
        };
        /** @description What became of it. */
        AckedBody: {
            /**
             * Format: uint64
             * @description How many of the messages were handed out, and not acknowledged.
             */
            found: number;
        };
        /** @description `POST /v1/locks/{name}`. */
        AcquireBody: {
            /** @description Who; one who has it already keeps it, and its lease is renewed. Somebody new, if not given. */
            owner?: string | null;
            /**
             * Format: uint64
             * @description The lease, in ms: 30 s, unless it says otherwise.
             */
            ttl_ms?: number | null;
            /**
             * Format: uint64
             * @description How long to wait for it, in ms: not at all, unless it says otherwise.
             */
            wait_ms?: number | null;
        };
        /**
         * @description A node's admin state.
         * @enum {string}
         */
        AdminState: "member" | "cordoned" | "draining" | "removed";
        BTreeMap: {
            [key: string]: string;
        };
        /** @description `POST /v1/txn/begin`. */
        BeginBody: {
            /** @description Whose keys it names. */
            keyspace?: string;
            /**
             * Format: uint64
             * @description Without a request for so long it ends.
             */
            timeout_ms?: number | null;
        };
        /** @description A transaction that was begun. */
        BegunTxn: {
            /** @description Its name in further requests. */
            id: string;
            /**
             * Format: uint64
             * @description Without a request for so long it ends.
             */
            timeout_ms: number;
        };
        /**
         * @description What has become of a key.
         * @enum {string}
         */
        ChangeKind: "put" | "deleted" | "expired";
        /** @description `POST /v1/volumes/{volume}/clone`. */
        CloneBody: {
            /** @description Its time, as `at` of `get` takes it; now, if none is named. */
            at?: string | null;
            /** @description What the clone is called. */
            name: string;
            /**
             * Format: uint8
             * @description How many nodes hold each of its blocks: as of its source, unless it says otherwise.
             */
            replicas?: number | null;
            /**
             * Format: uint64
             * @description How long its replaced blocks stay readable: as of its source, unless it says otherwise.
             */
            retention_ms?: number | null;
        };
        /** @description What a clone reads that it has not written. */
        CloneInfo: {
            /** @description Its time, as digits. */
            at: string;
            /**
             * Format: uint64
             * @description The same, in milliseconds since 1970.
             */
            at_ms: number;
            /** @description The volume. */
            volume: string;
        };
        /** @description The cluster in numbers, as `/v1/status` shows them. */
        ClusterStatus: {
            /** @description Its id, in hexadecimal. */
            id: string;
            /**
             * Format: uint64
             * @description Members that are dead, paused or cut off.
             */
            members_down: number;
            /**
             * Format: uint64
             * @description Of these, members that did not answer lately.
             */
            members_suspected: number;
            /**
             * Format: uint64
             * @description Members that answer; this node is one.
             */
            members_up: number;
            /**
             * Format: uint64
             * @description Shards that this node leads.
             */
            shards_led: number;
            /**
             * Format: uint64
             * @description Shards of which this node has a replica, and which have fewer live replicas than their
             *     keyspace asks for.
             */
            shards_under_replicated: number;
            /**
             * Format: uint64
             * @description Shards of which this node has a replica and knows no leader, or is elected to be and cannot.
             */
            shards_without_leader: number;
        };
        /** @description The answer of `GET` and `POST /v1/level`: the cluster version, and what its nodes support. */
        ClusterVersionStatus: {
            /** @description Whether this node, when it leads the system shard, raises it by itself. */
            automatic: boolean;
            /**
             * Format: uint8
             * @description The cluster version.
             */
            level: number;
            /** @description All nodes that must support it, by their ids. */
            nodes: components["schemas"]["NodeVersions"][];
            /**
             * @description Why the next version cannot be used yet, as clauses. Empty if it can, or if this node knows
             *     no next one.
             */
            objections: string[];
            /** @description The lowest and the highest that this node supports. */
            speaks: [
                number,
                number
            ];
        };
        /** @description `POST /v1/gc`. */
        CollectBody: {
            /** @description Up to when, as `at` of `get` takes it; now, if none is named. Retention does not count. */
            at?: string | null;
            /** @description The keyspaces; all, if none is named. */
            keyspaces?: string[];
        };
        /** @description One that was committed. */
        CommittedTxn: {
            /**
             * @description Always.
             * @enum {boolean}
             */
            committed: true;
        };
        /** @description One condition: one of `exists`, `value` and `version`. */
        Compare: {
            /** @description It has a value, or has none. */
            exists?: boolean | null;
            /** @description The key that is looked at. */
            key: components["schemas"]["Text"];
            value?: components["schemas"]["Text"] | null;
            version?: components["schemas"]["WholeNumber"] | null;
        };
        /** @description How a shard is to be cut. */
        Cut: {
            at?: components["schemas"]["CutAt"] | null;
        };
        /** @description Where a shard is split: at the first slot of its right half, or at its first key, as text. */
        CutAt: number | string;
        /** @description A node that something is decided about. */
        DecisionNode: {
            /** @description Its id, in hexadecimal. */
            id: string;
            /** @description Its name; its id if it has none. */
            name: string;
        };
        /**
         * @description What came of a decision.
         * @enum {string}
         */
        DecisionOutcomeStatus: "dry" | "under-way" | "done" | "not-done" | "handed-on";
        /** @description A decision about one shard: its replicas, its leader, a split or a merge. */
        DecisionStatus: {
            /** @description Nodes that get a new replica each. */
            add: components["schemas"]["DecisionNode"][];
            /**
             * Format: uint64
             * @description When, in milliseconds since 1970.
             */
            at_ms: number;
            by: components["schemas"]["DecisionNode"] | null;
            /** @description What came of it. */
            came: components["schemas"]["DecisionOutcomeStatus"];
            deviation: components["schemas"]["Deviation"] | null;
            /** @description Its keyspace's name; `null` for the shard that holds the catalogue. */
            keyspace: string | null;
            leader: components["schemas"]["DecisionNode"] | null;
            merge: components["schemas"]["MergeStatus"] | null;
            /** @description Replicas that go. */
            remove: number[];
            /**
             * Format: uint64
             * @description About which shard.
             */
            shard: number;
            split: components["schemas"]["SplitStatus"] | null;
            /**
             * Format: uint64
             * @description How long it took, if it is done.
             */
            took_ms: number | null;
            /** @description Why it would wait, if it is only what would be decided. */
            waits: string | null;
            /** @description Why, in words. */
            why: string;
        };
        /** @description What `GET /v1/decisions` answers. */
        Decisions: {
            /** @description Whether the node moves replicas and leaders to be even: `balance` in its configuration. */
            balances: boolean;
            /**
             * @description The decisions among the events that this node remembers, the oldest first; or what it would
             *     decide now.
             */
            decisions: components["schemas"]["DecisionStatus"][];
            /** @description Nodes that were asked and did not answer. */
            silent: components["schemas"]["SilentNode"][];
        };
        /** @description Where a node listens. */
        DevAddresses: {
            /** @description For HTTP. */
            http: string;
            /** @description For native frames. */
            native: string;
            /** @description For other nodes. */
            peer: string;
            /** @description For Redis clients. */
            resp: string;
        };
        /** @description What may be said beside the path. */
        DevBody: {
            /** @description Settings of the node. */
            parameters?: {
                [key: string]: string;
            } | null;
        };
        /** @description What `GET /v1/dev` answers. */
        DevCluster: {
            /** @description The directory of all nodes. */
            dir: string;
            /** @description Further flags of every node. */
            flags: string[];
            /** @description The nodes, in the order of their numbers. */
            nodes: components["schemas"]["DevNode"][];
            /**
             * Format: uint64
             * @description So many nodes there may be.
             */
            nodes_max: number;
            /** @description Settings that may be given to a node. */
            parameters: components["schemas"]["DevParameter"][];
        };
        /** @description How a node's process has ended. */
        DevEnd: {
            /** @description Whether somebody has asked for it. */
            asked: boolean;
            /** @description `with exit code 0`, `by SIGKILL (9)`. */
            how: string;
            /** @description The last lines of its log. */
            log: string[];
        };
        /** @description A node of `carillon dev`. */
        DevNode: {
            /** @description Where it listens. */
            addresses: components["schemas"]["DevAddresses"];
            /** @description How to start it by hand. */
            command: string;
            /** @description Its directory. */
            dir: string;
            ended: components["schemas"]["DevEnd"] | null;
            /** @description The file of its log. */
            log: string;
            /** @description Its name. */
            name: string;
            /** @description Settings that were given at its last start. */
            parameters: components["schemas"]["BTreeMap"];
            /**
             * Format: uint32
             * @description Its process id; none once it has ended.
             */
            pid: number | null;
            /**
             * Format: uint64
             * @description Since when, in milliseconds since 1970.
             */
            since_at_ms: number;
            /** @description What its process does. */
            state: components["schemas"]["DevState"];
            /** @description Whether it is the node that has passed the request on. */
            this: boolean;
        };
        /** @description A setting that may be given. */
        DevParameter: {
            /** @description Which values it takes, in words. */
            accepts: string;
            /** @description Its default, as text. */
            default: string;
            /** @description What it does. */
            help: string;
            /** @description Its name. */
            name: string;
        };
        /**
         * @description What a node's process does.
         * @enum {string}
         */
        DevState: "starting" | "running" | "paused" | "stopping" | "ended";
        /**
         * @description How even the nodes are: the root of the mean square by which they miss the mean of bytes and
         *     replicas, in parts of it. 0: all are equal.
         */
        Deviation: {
            /**
             * Format: double
             * @description As it was when the decision had been carried out.
             */
            achieved: number | null;
            /**
             * Format: double
             * @description When it was decided.
             */
            before: number;
            /**
             * Format: double
             * @description As it was to be.
             */
            predicted: number;
        };
        /** @description `POST /v1/txn/{id}`. */
        DoBody: {
            /** @description The operations. */
            do: components["schemas"]["Op"][];
        };
        /** @description How much has left a draining node lately. */
        DrainRate: {
            /**
             * Format: uint64
             * @description Bytes of keys and values.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Within so many milliseconds.
             */
            over_ms: number;
            /**
             * Format: uint64
             * @description Replicas.
             */
            replicas: number;
        };
        /**
         * @description Why a replica is still there.
         * @enum {string}
         */
        DrainState: "no-leader" | "silent" | "stuck" | "waiting" | "due" | "moving";
        /** @description What `GET /v1/nodes/{node}/drain` answers. */
        DrainStatus: {
            /**
             * Format: uint64
             * @description Its keys and values, in bytes, as it last told.
             */
            data_bytes: number;
            /** @description The node's id, in hexadecimal. */
            id: string;
            /**
             * Format: uint64
             * @description Of these, those that it leads.
             */
            leads: number;
            /** @description Its name. */
            name: string;
            rate: components["schemas"]["DrainRate"] | null;
            /**
             * Format: uint64
             * @description Shards that have a replica there.
             */
            replicas: number;
            /** @description Shards that have a replica there, at most [`DRAIN_SHARDS_MAX`]. */
            shards: components["schemas"]["DrainingShard"][];
            /** @description Nodes that did not say what they know. */
            silent: components["schemas"]["SilentNode"][];
            /** @description Its admin state. */
            standing: components["schemas"]["AdminState"];
            /** @description What is waited for, the worst first. */
            waits: components["schemas"]["DrainWait"][];
        };
        /** @description Shards that wait for the same. */
        DrainWait: {
            /**
             * Format: uint64
             * @description How many.
             */
            shards: number;
            /** @description In a word. */
            state: components["schemas"]["DrainState"];
            /** @description The sentence of the first of them. */
            why: string;
        };
        /** @description A shard with a replica on the node. */
        DrainingShard: {
            /**
             * Format: uint64
             * @description Its bytes, as its leader counts them.
             */
            bytes: number;
            /** @description Its keyspace's name; `null` for the catalogue. */
            keyspace: string | null;
            /** @description Whether the node leads it. */
            leads: boolean;
            /**
             * Format: uint64
             * @description Its id.
             */
            shard: number;
            /** @description What it waits for, in a word. */
            state: components["schemas"]["DrainState"];
            /** @description The same, in a sentence. */
            why: string;
        };
        /**
         * @description When a write is answered.
         * @enum {string}
         */
        Durability: "sync" | "interval" | "memory";
        /** @description Nodes or domains whose loss leaves a shard without a majority. */
        FailingSet: {
            /** @description Its keyspace's name; `null` for the catalogue. */
            keyspace: string | null;
            /**
             * Format: uint64
             * @description Voters that would be left.
             */
            left: number;
            /** @description Names of nodes or domains. Empty: it has no majority now. */
            lost: string[];
            /**
             * Format: uint64
             * @description Voters it needs.
             */
            needed: number;
            /**
             * Format: uint64
             * @description The shard.
             */
            shard: number;
            /**
             * Format: uint64
             * @description Voters it has.
             */
            voters: number;
        };
        /** @description How far a clone is flattened. */
        Flattened: {
            /**
             * Format: uint64
             * @description Blocks that were copied.
             */
            copied_blocks: number;
            /** @description Whether it has all, and needs its source no more. */
            is_done: boolean;
        };
        /** @description `POST /v1/mget`. */
        GetManyBody: {
            /** @description Their time, as `at` of `get` takes it; the newest values, if none is named. */
            at?: string | null;
            /** @description The keys. */
            keys: components["schemas"]["Text"][];
            /** @description Whose keys it names. */
            keyspace: string;
        };
        /** @description Values of several keys, as of one time. */
        GetManyDone: {
            /** @description The time that was asked for, as digits. */
            at?: string;
            /** @description One for each key, in their order. */
            values: components["schemas"]["GetManyValue"][];
        };
        /** @description A key and its value. */
        GetManyValue: {
            /**
             * Format: uint64
             * @description When it ends, in milliseconds since 1970.
             */
            expires_at_ms?: number;
            /** @description What it had. */
            state: components["schemas"]["KeyState"];
            value: components["schemas"]["Text"] | null;
            /** @description When it was written, as digits. */
            version?: string;
        };
        /** @description `PUT /v1/topics/{topic}/groups/{group}`. */
        GroupBody: {
            /**
             * Format: uint64
             * @description Time to acknowledge a message, in ms: 30 s, unless it says otherwise.
             */
            ack_ms?: number | null;
            /** @description That topic. */
            dead_letter?: string | null;
            /**
             * Format: uint64
             * @description After so many deliveries a message goes to the dead-letter topic.
             */
            deliveries_max?: number | null;
            from?: components["schemas"]["WholeNumber"] | null;
        };
        /** @description A group as it is. */
        GroupInfo: {
            /**
             * Format: uint64
             * @description Time to acknowledge a message, in ms.
             */
            ack_ms: number;
            /** @description That topic. */
            dead_letter?: string;
            /**
             * Format: uint64
             * @description After so many deliveries a message goes to the dead-letter topic; 0: never.
             */
            deliveries_max: number;
            /**
             * Format: uint64
             * @description Messages that the topic dropped before the group had them.
             */
            missed: number;
            /** @description Its name. */
            name: string;
            /**
             * Format: uint64
             * @description The number of the next message that it has not had.
             */
            next: number;
            /**
             * Format: uint64
             * @description Messages that were handed out and are not acknowledged.
             */
            unacknowledged: number;
            /**
             * Format: uint64
             * @description Messages that wait for it and that it has not had.
             */
            waiting: number;
        };
        /** @description How things are, and why. */
        Health: {
            /** @description Why it is not `ok`, the worst first: a sentence each. */
            reasons: string[];
            /** @description In one word. */
            verdict: components["schemas"]["Verdict"];
        };
        /** @description How often values fell below each of some bounds. */
        HistogramSummary: {
            /** @description Rising bounds, each with how many values were at or below it. */
            buckets: [
                number,
                number
            ][];
            /**
             * Format: uint64
             * @description How many values there were.
             */
            count: number;
            /**
             * Format: double
             * @description Sum of all values.
             */
            sum: number;
        };
        /** @description A page as JSON. */
        History: {
            /** @description The newest first. */
            changes: components["schemas"]["KeyChange"][];
            /** @description There are more: those before this version. `null`: there are none. */
            next: string | null;
            /** @description Of what was at or below this version only the last is known. */
            safe_point: string;
            /**
             * Format: uint64
             * @description The same, in milliseconds since 1970.
             */
            safe_point_ms: number;
        };
        /** @description Adds to the number that a key has. */
        IncrementOp: {
            by?: components["schemas"]["WholeNumber"] | null;
            /** @description The key. */
            key: components["schemas"]["Text"];
        };
        /** @description A change of a key. */
        KeyChange: {
            /**
             * Format: uint64
             * @description When, in milliseconds since 1970.
             */
            at_ms: number;
            /**
             * Format: uint64
             * @description How long the value is.
             */
            bytes?: number;
            /**
             * Format: uint64
             * @description When the value ends, in milliseconds since 1970.
             */
            expires_at_ms?: number;
            /** @description The value. */
            value?: components["schemas"]["Text"];
            /** @description As text: JSON's numbers do not hold 64 bits everywhere. */
            version?: string;
            /** @description `put`, `deleted` or `expired`. */
            what: components["schemas"]["ChangeKind"];
        };
        /**
         * @description What a key had.
         * @enum {string}
         */
        KeyState: "value" | "nil" | "nil-yet";
        /** @description A page as JSON. */
        KeysPage: {
            /**
             * @description The time that was read, if one was named: with it, not with an age that goes on, the next
             *     pages are of the same cut.
             */
            at?: string | null;
            /** @description Its keys: maybe none, though there are more behind it. */
            keys: components["schemas"]["Text"][];
            /** @description Where the next page begins; `null`: this was the last one. */
            next: string | null;
        };
        /** @description What to change of a keyspace. */
        KeyspaceChange: {
            durability?: components["schemas"]["Durability"] | null;
            /**
             * Format: uint8
             * @description How many nodes hold each of its keys from now on: not fewer than now.
             */
            replicas?: number | null;
            /**
             * Format: uint64
             * @description How long replaced versions stay readable from now on.
             */
            retention_ms?: number | null;
            /** @description Whether writes of what a key has make no new version from now on. */
            skip_equal_writes?: boolean | null;
            /**
             * Format: uint64
             * @description The size of a volume from now on. What lies behind a smaller one stays in the store.
             */
            volume_bytes?: number | null;
        };
        /** @description A keyspace as it is. */
        KeyspaceInfo: {
            clone_of?: components["schemas"]["CloneInfo"] | null;
            /** @description When its writes are answered. */
            durability: components["schemas"]["Durability"];
            /**
             * Format: uint32
             * @description Its id, never used again.
             */
            id: number;
            /**
             * Format: uint64
             * @description How many keys it has.
             */
            keys: number;
            /** @description Its name. */
            name: string;
            /** @description Where its keys live. */
            placement: components["schemas"]["Placement"];
            /**
             * Format: uint8
             * @description How many nodes are to hold each of its keys.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description How long replaced versions stay readable.
             */
            retention_ms: number;
            /**
             * Format: uint64
             * @description How many shards it has.
             */
            shards: number;
            /** @description Whether writes of what a key has make no new version. */
            skip_equal_writes: boolean;
            volume?: components["schemas"]["VolumeSpec"] | null;
            /** @description What to know of it; only in answers to `POST` and `PATCH`, and only if there is something. */
            warnings?: string[];
        };
        /** @description The answer of `GET /v1/keyspaces`: an object, so that later versions can add fields. */
        KeyspaceList: {
            keyspaces: components["schemas"]["KeyspaceInfo"][];
        };
        /** @description A keyspace to be made. */
        KeyspaceSpec: {
            durability?: components["schemas"]["Durability"] | null;
            /** @description Its name. */
            name: string;
            /** @description Where its keys live; cannot be changed later. */
            placement?: components["schemas"]["Placement"];
            /**
             * Format: uint8
             * @description How many nodes hold each of its keys: 1, 3, 5, 7 or 9; the node's default if not given.
             */
            replicas?: number | null;
            /**
             * Format: uint64
             * @description How long replaced versions stay readable; the node's default if not given.
             */
            retention_ms?: number | null;
            /**
             * @description Whether a write of the value and expiry that a key has makes no new version; false if not
             *     given.
             */
            skip_equal_writes?: boolean | null;
            volume?: components["schemas"]["VolumeSpec"] | null;
        };
        /** @description A node's link to another, as it sees it. */
        LinkSummary: {
            /** @description Whether they have a connection now. */
            connected: boolean;
            /**
             * Format: double
             * @description Bytes that came over it since the node's process started.
             */
            received_bytes: number;
            /**
             * Format: double
             * @description How long the last ping took; 0: none has come back.
             */
            round_trip_seconds: number;
            /**
             * Format: double
             * @description Bytes that went over it.
             */
            sent_bytes: number;
            /** @description The other node's id, in hexadecimal. */
            to: string;
        };
        /** @description One listener. */
        ListenerStatus: {
            /** @description Address as bound. */
            address: string;
            /** @description `resp`, `native` or `http`. */
            protocol: string;
        };
        /** @description A lock that is held. */
        LockInfo: {
            /**
             * Format: uint64
             * @description When its lease ends unless it is renewed, in milliseconds since 1970.
             */
            ends_at_ms: number;
            /** @description Its name. */
            name: string;
            /** @description Who holds it. */
            owner: string;
            /** @description Its token, as digits: larger than those of all holders before. */
            token: string;
        };
        /** @description Locks that are held. */
        LockPage: {
            /** @description By name. */
            locks: components["schemas"]["LockInfo"][];
            /** @description What `after` of the next page is; `null`: this was the last one. */
            next: string | null;
        };
        /** @description What data takes on disk. */
        LogStatus: {
            /**
             * Format: uint64
             * @description All files of the log.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description Of `bytes`, what came since the last checkpoint.
             */
            bytes_since_checkpoint: number;
            /**
             * Format: uint64
             * @description When the last checkpoint was finished, in milliseconds since 1970; 0 = never.
             */
            checkpoint_at_ms: number;
            /**
             * Format: uint64
             * @description How many files.
             */
            segments: number;
        };
        /** @description What data takes in memory. */
        MemoryStatus: {
            /**
             * Format: uint64
             * @description `memory_max`.
             */
            max_bytes: number;
            /**
             * Format: uint64
             * @description Of that, replaced versions kept for retention.
             */
            old_versions_bytes: number;
            /**
             * Format: uint64
             * @description Keys and values, all versions, and what keeps them.
             */
            used_bytes: number;
        };
        /** @description The merge of a shard with its right neighbour. */
        MergeStatus: {
            /** @description Whether the shard's replicas go to where those of the other are first: it takes longer then. */
            moves: boolean;
            /**
             * Format: uint64
             * @description The one that ends.
             */
            right: number;
            /**
             * Format: uint64
             * @description The shard, which will have the slots of both.
             */
            shard: number;
        };
        /** @description Where a message was before it came to a dead-letter topic. */
        MessageOrigin: {
            /**
             * Format: uint64
             * @description How often it was delivered.
             */
            deliveries: number;
            /** @description The group that did not acknowledge it. */
            group: string;
            /**
             * Format: uint64
             * @description Its number there.
             */
            number: number;
            /** @description Its topic. */
            topic: string;
        };
        /** @description What a node has counted, without labels. */
        MetricsSummary: {
            /**
             * Format: uint64
             * @description When, in milliseconds since 1970, by the node's clock.
             */
            at_ms: number;
            /** @description The sum of each metric's histograms. */
            histograms: {
                [key: string]: components["schemas"]["HistogramSummary"];
            };
            /** @description The node's id, in hexadecimal. */
            id: string;
            /** @description Its links to other nodes, 128 at most; none if they were not asked for. */
            links?: components["schemas"]["LinkSummary"][];
            /** @description Its name. */
            name: string;
            /** @description The sum of each metric's numbers, by its name without `carillon_`. */
            numbers: {
                [key: string]: number;
            };
            /**
             * Format: uint64
             * @description How long its process has run; it counts from 0 when it starts.
             */
            uptime_ms: number;
        };
        /** @description What may be said beside the path. */
        NodeActionBody: {
            /** @description An id is meant that no node here knows. */
            unknown?: boolean;
        };
        /** @description Where a node is reached: `HOST:PORT`, if it listens. */
        NodeAddresses: {
            /** @description By HTTP. */
            http: string | null;
            /** @description By HTTP over TLS. */
            http_tls: string | null;
            /** @description By clients of the native protocol. */
            native: string | null;
            /** @description By other nodes. */
            peer: string | null;
            /** @description By Redis clients. */
            resp: string | null;
            /** @description By Redis Cluster clients, which take this for a replica of it (`resp_replica`). */
            resp_replica: string | null;
            /** @description By Redis clients that speak TLS. */
            resp_tls: string | null;
        };
        /** @description A node's admin state, and what it still holds. */
        NodeAdminState: {
            /**
             * Format: uint64
             * @description Its keys and values, in bytes, as it last told.
             */
            data_bytes: number;
            /** @description Its id, in hexadecimal. */
            id: string;
            /**
             * Format: uint64
             * @description Of these, those that it leads.
             */
            leads: number;
            /** @description Its name, if it is known. */
            name: string | null;
            /**
             * Format: uint64
             * @description Shards that have a replica there.
             */
            replicas: number;
            /** @description Its admin state from now on. */
            standing: components["schemas"]["AdminState"];
        };
        /** @description What `GET /v1/metrics` answers. */
        NodeMetrics: {
            /** @description Of each node that answered; the one that was asked is the first. */
            nodes: components["schemas"]["MetricsSummary"][];
            /** @description Nodes that did not answer. */
            silent: components["schemas"]["SilentNode"][];
        };
        /**
         * @description Whether a node is up.
         * @enum {string}
         */
        NodeState: "up" | "suspected" | "down" | "left";
        /** @description A member of the cluster, as this node knows it. */
        NodeStatus: {
            /** @description Where it is reached. */
            addresses: components["schemas"]["NodeAddresses"];
            /**
             * Format: uint64
             * @description Its keys and values, in bytes, as it last told.
             */
            data_bytes: number;
            /** @description Its failure domain; empty: unknown. */
            domain: string;
            drain_rate: components["schemas"]["DrainRate"] | null;
            /**
             * Format: uint64
             * @description Of these, reads from replicas that do not lead.
             */
            follower_reads_per_second: number;
            /** @description Its id, in hexadecimal. */
            id: string;
            /**
             * Format: uint64
             * @description When it joined, in milliseconds since 1970: nodes are in this order.
             */
            joined_at_ms: number;
            /**
             * Format: uint64
             * @description Of these, the ones that lead.
             */
            leaders: number;
            /**
             * Format: uint64
             * @description Of these, those that it leads.
             */
            leads: number;
            /** @description Whether this node has a link to it. */
            linked: boolean;
            /** @description Its name; not unique. */
            name: string;
            /**
             * Format: uint64
             * @description Shards that have a replica there, as far as the answering node knows.
             */
            replicas: number;
            /**
             * Format: uint64
             * @description Requests a second that it serves, as it last reported: of shards that it leads, and reads
             *     from its other replicas. Estimated from one request in 64.
             */
            requests_per_second: number;
            /**
             * Format: uint64
             * @description Replicas it holds, as it last reported.
             */
            shards: number;
            /**
             * Format: uint64
             * @description Since when this node sees it in this state, in milliseconds since 1970.
             */
            since_at_ms: number;
            /** @description Whether its disk is slow, so that it transfers its leaderships; as it last reported. */
            slow_disk: boolean;
            /** @description Its admin state. */
            standing: components["schemas"]["AdminState"];
            /** @description Whether it is there. */
            state: components["schemas"]["NodeState"];
            /** @description Whether it is the node that answers. */
            this: boolean;
            /** @description The program it runs. */
            version: string;
        };
        /** @description A node, and the cluster versions that it supports. */
        NodeVersions: {
            /** @description Its id, in hexadecimal. */
            id: string;
            /** @description Its name, or its id. */
            name: string;
            /** @description The lowest and the highest version that it supports; `null`: not known. */
            speaks: [
                number,
                number
            ] | null;
        };
        /** @description What `GET /v1/nodes` answers. */
        Nodes: {
            /** @description Whether all is well, as this node sees it. */
            health: components["schemas"]["Health"];
            /** @description All members. */
            nodes: components["schemas"]["NodeStatus"][];
            /** @description Ids of nodes that were removed for good, in hexadecimal. */
            removed: string[];
        };
        /** @description Nothing more is to be said. */
        Nothing: Record<string, never>;
        /** @description An operation. */
        Op: {
            /** @description The value of a key. */
            get: components["schemas"]["Text"];
        } | {
            /** @description A new value for a key. */
            put: components["schemas"]["PutOp"];
        } | {
            /** @description No value for a key. */
            delete: components["schemas"]["Text"];
        } | {
            /** @description Adds to the number that a key has. */
            increment: components["schemas"]["IncrementOp"];
        } | {
            /** @description Keys in order, with their values; of ordered keyspaces. */
            range: components["schemas"]["RangeOp"];
        } | {
            /** @description A message for a topic of the keyspace. */
            publish: components["schemas"]["PublishOp"];
        };
        /** @description What a snapshot keeps below a safe point. */
        PinnedTime: {
            /**
             * Format: uint64
             * @description Its time, in milliseconds since 1970.
             */
            at_ms: number;
            /**
             * Format: uint64
             * @description Bytes of versions on the node that was asked that only this time keeps: they go when its
             *     last snapshot is released.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description The snapshot.
             */
            snapshot: number;
        };
        /**
         * @description Where a keyspace's keys live.
         * @enum {string}
         */
        Placement: "hashed" | "ordered" | "linear-hash";
        /** @description Its JSON. */
        Problem: {
            /** @description What happened. */
            detail: string;
            /** @description `not done` or `unknown`: whether anything was changed. */
            outcome: components["schemas"]["ProblemOutcome"];
            /** @description What to do. */
            remedy: string;
            /** @description The request whose outcome is unknown, as the node's log names it. */
            request_id?: string;
            /**
             * Format: uint16
             * @description The reply's status.
             */
            status: number;
            /** @description The kind in words. */
            title: string;
            /** @description `urn:carillon:problem:` and what kind it is. */
            type: string;
        };
        /**
         * @description Whether anything was changed.
         * @enum {string}
         */
        ProblemOutcome: "not done" | "unknown";
        /** @description `POST /v1/topics/{topic}/messages`. */
        PublishBody: {
            /** @description The messages. */
            messages: components["schemas"]["Text"][];
        };
        /** @description A message for a topic. */
        PublishOp: {
            /** @description The message. */
            message: components["schemas"]["Text"];
            /** @description The topic. */
            topic: string;
        };
        /** @description Messages that were published. */
        PublishedMessages: {
            /**
             * Format: uint64
             * @description The number of the first.
             */
            first: number;
            /**
             * Format: uint64
             * @description The number of the last.
             */
            last: number;
        };
        /** @description A new value for a key. */
        PutOp: {
            /** @description The key. */
            key: components["schemas"]["Text"];
            /**
             * Format: uint64
             * @description It ends after so long.
             */
            ttl_ms?: number | null;
            /** @description Its value. */
            value: components["schemas"]["Text"];
        };
        /** @description How it is to rise. */
        RaiseBody: {
            /**
             * Format: uint8
             * @description The cluster version from then on; the next one, if it is left out.
             */
            to?: number | null;
        };
        /** @description Keys in order. */
        RangeOp: {
            from?: components["schemas"]["Text"] | null;
            /**
             * Format: uint64
             * @description At most so many keys.
             */
            limit?: number | null;
            /** @description From high to low. */
            reverse?: boolean;
            to?: components["schemas"]["Text"] | null;
        };
        /** @description `PUT /v1/snapshots/{id}`. */
        RenewBody: {
            /**
             * Format: uint64
             * @description For how long from now on, in ms; ten minutes, unless it says otherwise.
             */
            ttl_ms?: number | null;
        };
        /** @description `PUT /v1/locks/{name}`. */
        RenewLockBody: {
            /** @description The holder's token. */
            token: components["schemas"]["WholeNumber"];
            /**
             * Format: uint64
             * @description The lease from now on, in ms: 30 s, unless it says otherwise.
             */
            ttl_ms?: number | null;
        };
        /**
         * @description What a replica does in its shard.
         * @enum {string}
         */
        ReplicaRole: "voter" | "learner" | "outgoing";
        /** @description One replica of a shard. */
        ReplicaStatus: {
            /** @description Whether a snapshot is on its way to it. */
            awaits_snapshot: boolean;
            /**
             * Format: uint64
             * @description Entries that it lacks of the leader's log; only the leader knows, once it has heard of it.
             */
            behind: number | null;
            /**
             * Format: uint64
             * @description How long ago the leader sent it something that it has answered; only the leader knows.
             */
            contact_ms: number | null;
            /** @description Whether it leads, as far as this node knows. */
            leader: boolean;
            /** @description Whether its node is up. */
            live: boolean;
            /** @description Its node's name, if that is known. */
            name: string | null;
            /** @description Its node's id. */
            node: string;
            /**
             * Format: uint64
             * @description Its id in the shard.
             */
            replica: number;
            /** @description What it does. */
            role: components["schemas"]["ReplicaRole"];
            snapshot: components["schemas"]["SnapshotStatus"] | null;
        };
        /** @description The route of one lookup. */
        RouteStatus: {
            /**
             * Format: uint64
             * @description The shard whose table it was begun with: one of the node that was asked. `null`: it was
             *     begun with no shard's table, or on another node.
             */
            begins_at: number | null;
            /** @description Why no owner was found. */
            failure?: string;
            /** @description `iterative`, `recursive` or `semi-recursive`. */
            form: string;
            /**
             * Format: uint32
             * @description Moves from shard to shard.
             */
            hops: number;
            /** @description Whether nodes went by whatever they happened to know. */
            images: boolean;
            /** @description The id of the node that leads it, in hexadecimal. */
            leader: string | null;
            /** @description `full`, `chord`, `chord-sharp`, `linear` or `lh`. */
            lookup: string;
            /**
             * Format: uint32
             * @description Messages between nodes; none if the route was not traced.
             */
            messages: number | null;
            /**
             * Format: uint64
             * @description How long it took.
             */
            micros: number;
            /**
             * Format: uint64
             * @description The shard that owns the key; none if none was found.
             */
            shard: number | null;
            /** @description Every move, if it was traced. */
            steps: components["schemas"]["RouteStep"][];
        };
        /** @description One move. */
        RouteStep: {
            /** @description Which entry of a table led there. */
            by: string;
            /**
             * Format: uint64
             * @description How long it took; none where another node has asked.
             */
            micros?: number;
            /** @description What its name is, if it is known. */
            name: string;
            /** @description The id of the node, in hexadecimal. */
            node: string;
            /**
             * Format: uint64
             * @description To which shard; 0 if any of the node's was asked.
             */
            shard: number;
        };
        /**
         * @description What holds a safe point.
         * @enum {string}
         */
        SafePointHold: "retention" | "snapshot" | "feed";
        /** @description From when on a keyspace can be read, and what holds that. */
        SafePointInfo: {
            /** @description What holds it. */
            held_by: components["schemas"]["SafePointHold"];
            /**
             * Format: uint64
             * @description About how many of these only that lease holds: they go when it ends.
             */
            held_bytes?: number;
            /** @description The keyspace's name. */
            keyspace: string;
            /**
             * Format: uint64
             * @description How high it may rise now, in milliseconds since 1970.
             */
            may_rise_to_ms: number;
            /**
             * Format: uint64
             * @description Bytes of old versions on the node that was asked.
             */
            old_bytes: number;
            /** @description Those snapshots, by time. */
            pinned?: components["schemas"]["PinnedTime"][];
            /**
             * Format: uint64
             * @description How many of them only snapshots keep, below the safe point.
             */
            pinned_bytes?: number;
            /**
             * Format: uint64
             * @description How long versions can be read, in ms.
             */
            retention_ms: number;
            /** @description The oldest time that can be read, as digits. */
            safe_point: string;
            /**
             * Format: uint64
             * @description The same, in milliseconds since 1970.
             */
            safe_point_ms: number;
            /**
             * Format: uint64
             * @description Which lease of a snapshot or a feed does, if one does.
             */
            snapshot?: number;
        };
        /** @description Safe points of all keyspaces. */
        SafePointList: {
            keyspaces: components["schemas"]["SafePointInfo"][];
        };
        /** @description How often a shard is asked: estimated from one request in 64. */
        ShardLoad: {
            /**
             * Format: uint64
             * @description Of these, reads from replicas that do not lead.
             */
            follower_reads_per_second: number;
            /**
             * Format: uint64
             * @description Reads a second, those of followers included.
             */
            reads_per_second: number;
            /**
             * Format: uint64
             * @description Writes a second.
             */
            writes_per_second: number;
            /**
             * Format: uint64
             * @description Bytes of keys and values that writes bring, a second.
             */
            written_bytes_per_second: number;
        };
        /** @description A shard, as this node knows it. */
        ShardStatus: {
            /**
             * Format: uint64
             * @description Up to where they are applied here.
             */
            applied: number;
            /**
             * @description The first position that it owns and the first that it does not, in hexadecimal, of a
             *     keyspace without slots. Empty: the ends of the circle.
             */
            arc: [
                string,
                string
            ] | null;
            /**
             * Format: uint64
             * @description What they take in memory here, in bytes, with old versions.
             */
            bytes: number;
            /** @description Whether a change of its replicas is under way. */
            changing: boolean;
            /**
             * Format: uint64
             * @description Up to where this node knows entries to be committed.
             */
            committed: number;
            /**
             * Format: uint64
             * @description How often its replicas or ends have changed.
             */
            generation: number;
            /** @description Whether this node has a replica of it. If not, the members below are those of its bootstrap. */
            here: boolean;
            /**
             * Format: uint64
             * @description Its id.
             */
            id: number;
            /**
             * Format: uint64
             * @description Its keys.
             */
            keys: number;
            /** @description Its keyspace's name; `null` for the shard that holds the catalogue of keyspaces. */
            keyspace: string | null;
            /** @description Voters that it cannot count on, if this node leads it: they lag, or have not answered. */
            lagging: number[];
            /** @description The id of the node that leads it. */
            leader: string | null;
            /**
             * Format: uint64
             * @description If this node leads it: how long its lease lasts. `null` for a sole replica, which needs no
             *     lease.
             */
            lease_ms: number | null;
            load: components["schemas"]["ShardLoad"] | null;
            /**
             * @description Quarantined replicas that are not replaced yet: this node's own, or, if it leads, all of
             *     them.
             */
            quarantined: number[];
            /** @description Its replicas. */
            replicas: components["schemas"]["ReplicaStatus"][];
            /**
             * Format: uint64
             * @description How many of its voters are on nodes that are up.
             */
            replicas_live: number;
            /**
             * Format: uint64
             * @description How many replicas its keyspace asks for.
             */
            replicas_wanted: number;
            /**
             * Format: uint64
             * @description Its sessions: nodes whose forwarded writes it remembers, so that none is done twice.
             */
            sessions: number;
            /** @description The first and the last of its slots, of a hashed keyspace. */
            slots: [
                number,
                number
            ] | null;
            /**
             * Format: uint64
             * @description Its term, at this node.
             */
            term: number;
            /**
             * @description The id of the node that knows all this: this one or, if the cluster was asked, the leader.
             *     `null`: no node told more than how the shard began.
             */
            told_by: string | null;
            /** @description Whether it is well, by itself. */
            verdict: components["schemas"]["Verdict"];
            /**
             * Format: uint64
             * @description How many voters it has; some may have no node any more.
             */
            voters: number;
            /**
             * Format: uint64
             * @description For how long no leader has been known, or this node, which is elected, has committed
             *     nothing; 0 if it has a leader.
             */
            without_leader_ms: number;
        };
        /** @description What `GET /v1/shards` answers. */
        Shards: {
            /** @description The health of all shards, as this node sees it, whichever were asked for. */
            health: components["schemas"]["Health"];
            /**
             * Format: uint64
             * @description There are more: those after this id.
             */
            next: number | null;
            /** @description The id of the answering node. */
            node: string;
            /** @description Shards by id. */
            shards: components["schemas"]["ShardStatus"][];
            /** @description Leaders that were asked for their shards and did not answer. */
            silent: components["schemas"]["SilentNode"][];
        };
        /** @description A node that did not say what it knows. */
        SilentNode: {
            /** @description Its id, in hexadecimal. */
            id: string;
            /** @description Its name; its id if it has none. */
            name: string;
            /** @description Why, as a clause. */
            why: string;
        };
        /** @description `POST /v1/snapshots`. */
        SnapshotBody: {
            /** @description Its time, as `at` of `get` takes it; now, if none is named. */
            at?: string | null;
            /** @description Its keyspaces; all, if none is named. */
            keyspaces?: string[];
            /**
             * Format: uint64
             * @description For how long it is kept, in ms; ten minutes, unless it says otherwise.
             */
            ttl_ms?: number | null;
        };
        /** @description A snapshot. */
        SnapshotInfo: {
            /** @description Its time, as digits. */
            at: string;
            /**
             * Format: uint64
             * @description The same, in milliseconds since 1970.
             */
            at_ms: number;
            /**
             * Format: uint64
             * @description When it ends unless it is renewed, in milliseconds since 1970.
             */
            ends_at_ms: number;
            /**
             * Format: uint64
             * @description Its number.
             */
            id: number;
            /** @description Its keyspaces, by name. */
            keyspaces: string[];
            /** @description Its name, which every read takes as a time. */
            token: string;
        };
        /** @description All snapshots. */
        SnapshotList: {
            snapshots: components["schemas"]["SnapshotInfo"][];
        };
        /** @description The progress of a snapshot to a replica. */
        SnapshotStatus: {
            /**
             * Format: uint64
             * @description Bytes there are, about.
             */
            about_bytes: number;
            /**
             * Format: uint64
             * @description Bytes that have left; those sent again count again.
             */
            sent_bytes: number;
        };
        /** @description The split of a shard. */
        SplitStatus: {
            /** @description Its first slot, or its first key. */
            at: components["schemas"]["CutAt"];
            /**
             * Format: uint64
             * @description The new shard, with all from `at` on.
             */
            right: number;
            /**
             * Format: uint64
             * @description The shard, which keeps its part below `at`.
             */
            shard: number;
        };
        /** @description How a node is. */
        Status: {
            /** @description The cluster in numbers. */
            cluster: components["schemas"]["ClusterStatus"];
            /**
             * Format: uint64
             * @description Clients connected now, by Redis and native protocol.
             */
            connections: number;
            /** @description Its data directory. */
            dir: string;
            /** @description Whether all is well, as this node sees it. */
            health: components["schemas"]["Health"];
            /**
             * Format: uint64
             * @description How many keys there are in all keyspaces.
             */
            keys: number;
            /**
             * Format: uint64
             * @description How many keyspaces there are.
             */
            keyspaces: number;
            /** @description The cluster version, and which versions its nodes support. */
            level?: components["schemas"]["ClusterVersionStatus"];
            /** @description Where it listens. */
            listeners: components["schemas"]["ListenerStatus"][];
            /** @description Its log. */
            log: components["schemas"]["LogStatus"];
            /** @description Its memory. */
            memory: components["schemas"]["MemoryStatus"];
            /** @description Its name. */
            name: string;
            /** @description Its id, in hexadecimal: JSON's numbers do not hold 64 bits everywhere. */
            node_id: string;
            /** @description Why it does not. */
            not_ready?: string;
            /** @description Whether it serves. */
            ready: boolean;
            /** @description What was found in the data directory at start, in words. */
            recovered: string;
            /**
             * Format: uint64
             * @description How many shards there are.
             */
            shards: number;
            /**
             * @description Parts of the API that not every server has, and this one has: `events`, `cluster` (answers
             *     for all nodes), `keys`, `history`, `prove`, `dev`, `sim`.
             */
            surfaces: string[];
            /**
             * Format: uint64
             * @description How many event loops it has.
             */
            threads: number;
            /**
             * Format: uint64
             * @description How long the process has run.
             */
            uptime_ms: number;
            /** @description The program's version. */
            version: string;
            /** @description What to know before relying on this node. */
            warnings: string[];
        };
        /** @description What `GET /v1/prove` answers. */
        Survivability: {
            /** @description Names of nodes that count as lost already. */
            down: string[];
            /** @description Of these, at most [`PROVE_SHARDS_MAX`], those that need the fewest losses first. */
            failing: components["schemas"]["FailingSet"][];
            /**
             * Format: uint64
             * @description How many may have no majority then.
             */
            failing_count: number;
            /** @description Whether each shard keeps a majority, whichever of these is lost. */
            holds: boolean;
            /** @description Why it is not known, in words. */
            obstacles: string[];
            /**
             * Format: uint64
             * @description How many shards there are.
             */
            shards: number;
            /** @description Nodes that did not say what they know. */
            silent: components["schemas"]["SilentNode"][];
            smallest: components["schemas"]["FailingSet"] | null;
            /** @description What was asked. */
            survive: components["schemas"]["Survive"];
            /** @description Shards of which it is not known, at most [`PROVE_SHARDS_MAX`]. */
            unproven: number[];
        };
        /**
         * @description What a cluster may be asked to survive.
         * @enum {string}
         */
        Survive: "node" | "domain" | "2-nodes";
        /** @description `POST /v1/topics/{topic}/groups/{group}/take`. */
        TakeBody: {
            /**
             * Format: uint64
             * @description At most so many messages.
             */
            max?: number | null;
            /**
             * Format: uint64
             * @description How long to wait for one, in ms: not at all, unless it says otherwise.
             */
            wait_ms?: number | null;
        };
        /** @description Messages that are handed out. */
        TakenBody: {
            /**
             * Format: uint64
             * @description Messages that went to the dead-letter topic.
             */
            dead: number;
            /** @description By rising number. */
            messages: components["schemas"]["TakenMessage"][];
            /**
             * Format: uint64
             * @description Messages that the topic dropped before the group had them, since its last take.
             */
            missed: number;
        };
        /** @description A message that is handed out. */
        TakenMessage: {
            /**
             * Format: uint64
             * @description How often it was handed out, this time included.
             */
            deliveries: number;
            /** @description What was published. */
            message: components["schemas"]["Text"];
            /**
             * Format: uint64
             * @description Its number.
             */
            number: number;
            /** @description Where it was before it came to this dead-letter topic. */
            origin?: components["schemas"]["MessageOrigin"];
            /**
             * Format: uint64
             * @description When it was published, in milliseconds since 1970.
             */
            published_at_ms: number;
        };
        /** @description Bytes: a string if they are UTF-8, else in base64. */
        Text: string | {
            /** @description In base64. */
            base64: string;
        };
        /** @description `POST /v1/topics`. */
        TopicBody: {
            /**
             * Format: uint64
             * @description How many bytes of messages are kept: 256 MiB, unless it says otherwise.
             */
            bytes_max?: number | null;
            /**
             * Format: uint64
             * @description How long a message is kept, in ms: a week, unless it says otherwise.
             */
            kept_ms?: number | null;
            /**
             * Format: uint64
             * @description How many messages are kept: 100 000, unless it says otherwise.
             */
            messages_max?: number | null;
            /** @description Its name. */
            name: string;
        };
        /** @description A topic as it is. */
        TopicInfo: {
            /**
             * Format: uint64
             * @description Bytes of the messages that are there, at most.
             */
            bytes: number;
            /**
             * Format: uint64
             * @description How many bytes of messages are kept.
             */
            bytes_max: number;
            /**
             * Format: uint64
             * @description The number of the oldest message that may be there.
             */
            first: number;
            /** @description Its groups, by name. */
            groups: components["schemas"]["GroupInfo"][];
            /**
             * Format: uint64
             * @description How long a message is kept, in ms.
             */
            kept_ms: number;
            /**
             * Format: uint64
             * @description How many messages are kept.
             */
            messages_max: number;
            /** @description Its name. */
            name: string;
            /**
             * Format: uint64
             * @description The number of the next message.
             */
            next: number;
        };
        /** @description The names of topics. */
        TopicList: {
            /** @description By name. */
            topics: string[];
        };
        /** @description `POST /v1/txn`. */
        TxnBody: {
            /** @description What must hold, all of it, … */
            compare?: components["schemas"]["Compare"][];
            /** @description … and else this. */
            else?: components["schemas"]["Op"][];
            /** @description Whose keys it names. */
            keyspace?: string;
            /** @description … so that this is done, … */
            then?: components["schemas"]["Op"][];
        };
        /** @description What a transaction in one request answers. */
        TxnDone: {
            /** @description What each operation has come to. */
            results: components["schemas"]["TxnResult"][];
            /** @description Whether all conditions held: `then` is done if so, else `else`. */
            succeeded: boolean;
        };
        /** @description A key with its value. */
        TxnPair: {
            /** @description The key. */
            key: components["schemas"]["Text"];
            /** @description Its value. */
            value: components["schemas"]["Text"];
            /** @description When it was written, as digits. */
            version?: string;
        };
        /** @description What an operation of a transaction has come to. */
        TxnResult: {
            value: components["schemas"]["Text"] | null;
            /** @description When it was written, as digits. */
            version?: string;
        } | {
            /**
             * @description Always.
             * @enum {boolean}
             */
            put: true;
        } | {
            /** @description So. */
            deleted: boolean;
        } | {
            /** @description Its number, as digits. */
            published: string;
        } | {
            /** @description The keys. */
            keys: components["schemas"]["TxnPair"][];
        };
        /** @description What operations answer. */
        TxnResults: {
            /** @description What each operation has come to. */
            results: components["schemas"]["TxnResult"][];
        };
        /**
         * @description The health verdict, in one word.
         * @enum {string}
         */
        Verdict: "ok" | "degraded" | "failing";
        /** @description A volume. */
        VolumeSpec: {
            /**
             * Format: uint32
             * @description The bytes of a block: 4096, 8192, 16384, 32768 or 65536; 4096 if not given. They are written
             *     whole; it cannot be changed later.
             */
            block_bytes?: number;
            /**
             * Format: uint64
             * @description Its size: a whole number of blocks, at most a pebibyte.
             */
            bytes: number;
            /**
             * @description Whether several clients may write to it at the same time. Else one session of writers may,
             *     and one that comes later takes the volume from it. It cannot be changed later.
             */
            shared?: boolean;
        };
        /** @description A whole number, or its digits as a string. */
        WholeNumber: number | string;
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    live: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It runs. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-ready`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text format of Prometheus, version 0.0.4. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    decisions: {
        parameters: {
            query?: {
                /** @description What would be decided now. */
                dry?: boolean;
                /** @description Of this node, or of all. */
                scope?: "node" | "cluster";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The oldest first. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Decisions"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    devNodes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The nodes. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DevCluster"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-dev`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-supervisor`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    addDevNode: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DevBody"];
            };
        };
        responses: {
            /** @description It is being started. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DevNode"];
                };
            };
            /** @description `bad-parameter`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-dev`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `port-in-use`, `too-many-nodes`, `wrong-state`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-started`. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-supervisor`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changeDevNode: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                node: string;
                /** @description What is done to it. */
                action: "start" | "stop" | "kill" | "pause" | "resume";
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DevBody"];
            };
        };
        responses: {
            /** @description It is being done. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DevNode"];
                };
            };
            /** @description `bad-parameter`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-dev`, `no-node`, `unknown-path`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `port-in-use`, `wrong-state`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-started`. */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-supervisor`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    events: {
        parameters: {
            query?: {
                /** @description Only these types, separated by commas. */
                types?: string;
                /** @description Only those about this keyspace. */
                keyspace?: string;
                /** @description Of this node, or of all. */
                scope?: "node" | "cluster";
                /** @description Behind this cursor; 0: all. */
                from?: string;
                /** @description It ends at this time, or `now`. */
                until?: string;
                /** @description Requests shown a second. */
                samples?: number;
            };
            header?: {
                /** @description As `from`, and goes first. */
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events, each a JSON object. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `stopping`, `too-many-viewers`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    feed: {
        parameters: {
            query?: {
                /** @description Its name; `0`, if none is named. */
                keyspace?: string;
                /** @description Only keys that begin so. */
                prefix?: string;
                /** @description Only this key. */
                key?: string;
                /** @description Only keys at or above this one. */
                from?: string;
                /** @description Only keys below this one. */
                to?: string;
                /** @description Changes above this token or time, or `now`. */
                since?: string;
                /** @description First the values that keys have then. */
                snapshot?: boolean;
                /** @description With the values before. */
                before?: boolean;
                /** @description Of what changed between `since` and the request, only the newest change of each key. */
                compact?: boolean;
                /** @description How bytes are written. */
                format?: "json" | "raw";
            };
            header?: {
                /** @description As `since`, and goes first. */
                "last-event-id"?: string | null;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Events, each a JSON object. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description `bad-request`, `in-future`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `no-answer`, `stopping`, `too-many-viewers`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    safePoints: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description By keyspace. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SafePointList"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    collect: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CollectBody"];
            };
        };
        responses: {
            /** @description As it was just before. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SafePointList"];
                };
            };
            /** @description `bad-request`, `in-future`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    history: {
        parameters: {
            query?: {
                /** @description Those before then: as `at` of `get`. */
                before?: string;
                /** @description So many. */
                limit?: number;
                /** @description With values, unless it says otherwise. */
                values?: boolean;
            };
            header?: never;
            path: {
                /** @description Its name. */
                keyspace: string;
                /** @description The key: any bytes. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description `bad-request`, `in-future`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    keys: {
        parameters: {
            query?: {
                /** @description What keys begin with: any bytes. */
                prefix?: string;
                /** @description `next` of the page before. */
                cursor?: string;
                /** @description About so many. */
                limit?: number;
                /** @description Keys that had a value then: as `at` of `get`. */
                at?: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                keyspace: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeysPage"];
                };
            };
            /** @description `bad-request`, `in-future`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    keyspaces: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description By name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyspaceList"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createKeyspace: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyspaceSpec"];
            };
        };
        responses: {
            /** @description As it is. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyspaceInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `keyspace-exists`, `no-level`, `too-few-nodes`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    keyspace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyspaceInfo"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `loading`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    dropKeyspace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is gone, with all its keys. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-keyspace`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changeKeyspace: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["KeyspaceChange"];
            };
        };
        responses: {
            /** @description As it is from now on. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyspaceInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `too-few-nodes`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    get: {
        parameters: {
            query?: {
                /** @description The value of then: a timestamp; milliseconds since 1970 with `ms` behind them; a time of RFC 3339; an age, as `10m ago`; or a snapshot's token. */
                at?: string;
                /** @description The value may be so old, in milliseconds. */
                stale?: number;
                /** @description How the owner is found: see `route`. */
                lookup?: string;
            };
            header?: {
                /** @description Entity tags, or `*`. */
                "if-match"?: string | null;
                /** @description Entity tags, or `*`. */
                "if-none-match"?: string | null;
            };
            path: {
                /** @description Its name. */
                keyspace: string;
                /** @description The key: any bytes. It may be empty, and stand as the parameter `key` instead: programs take `.` and `..` out of paths. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The value. */
            200: {
                headers: {
                    /** @description With `stale`: how old it may be. */
                    "carillon-age-ms"?: number | null;
                    /** @description When it ends. */
                    "carillon-expires-at-ms"?: number | null;
                    /** @description With `lookup`: the route. */
                    "carillon-route"?: string | null;
                    /** @description When it was written. */
                    "carillon-timestamp"?: number;
                    /** @description Its version, in quotes. */
                    etag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": number[];
                };
            };
            /** @description The client has it already. */
            304: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-request`, `in-future`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `nil-yet`, `nil`, `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `condition-failed`. */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    put: {
        parameters: {
            query?: {
                /** @description It ends after so long. */
                ttl_ms?: number;
                /** @description What must be so for it to be done. */
                if?: "absent" | "present";
                /** @description How the owner is found: see `route`. */
                lookup?: string;
            };
            header?: {
                /** @description Entity tags, or `*`. */
                "if-match"?: string | null;
                /** @description Entity tags, or `*`. */
                "if-none-match"?: string | null;
            };
            path: {
                /** @description Its name. */
                keyspace: string;
                /** @description The key: any bytes. It may be empty, and stand as the parameter `key` instead: programs take `.` and `..` out of paths. */
                key: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": number[];
            };
        };
        responses: {
            /** @description It is written. */
            204: {
                headers: {
                    /** @description When. */
                    "carillon-timestamp"?: number | null;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-request`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `condition-failed`. */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `value-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    delete: {
        parameters: {
            query?: {
                /** @description How the owner is found: see `route`. */
                lookup?: string;
            };
            header?: {
                /** @description Entity tags, or `*`. */
                "if-match"?: string | null;
                /** @description Entity tags, or `*`. */
                "if-none-match"?: string | null;
            };
            path: {
                /** @description Its name. */
                keyspace: string;
                /** @description The key: any bytes. It may be empty, and stand as the parameter `key` instead: programs take `.` and `..` out of paths. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted. */
            204: {
                headers: {
                    /** @description When. */
                    "carillon-timestamp"?: number | null;
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-request`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `nil`, `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `condition-failed`. */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    clusterVersion: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The version. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterVersionStatus"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    raiseClusterVersion: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RaiseBody"];
            };
        };
        responses: {
            /** @description From now on. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ClusterVersionStatus"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    locks: {
        parameters: {
            query?: {
                /** @description What names begin with. */
                prefix?: string;
                /** @description `next` of the page before. */
                after?: string;
                /** @description So many. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page, by name. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LockPage"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `operation-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    lock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is held. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LockInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `nil`, `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    renewLock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenewLockBody"];
            };
        };
        responses: {
            /** @description It is held on, with the same token. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LockInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `lock-lost`, `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    acquireLock: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AcquireBody"];
            };
        };
        responses: {
            /** @description It is held. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LockInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `lock-held`, `lock-lost`, `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    releaseLock: {
        parameters: {
            query: {
                /** @description The holder's token. */
                token: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                name: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Nobody holds it. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `lock-lost`, `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    metricsInShort: {
        parameters: {
            query?: {
                /** @description Of this node, or of all. */
                scope?: "node" | "cluster";
                /** @description With each node's links to the others. */
                links?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Of each node. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeMetrics"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    getMany: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GetManyBody"];
            };
        };
        responses: {
            /** @description The values. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GetManyDone"];
                };
            };
            /** @description `bad-request`, `in-future`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    nodes: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description By the time when they joined. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Nodes"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    drainOfNode: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its id or name. */
                node: string;
                /** @description What is told. */
                action: "drain";
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How far it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DrainStatus"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-node`, `unknown-path`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `ambiguous-node`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    changeNode: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its id or name. */
                node: string;
                /** @description What is done with it. */
                action: "cordon" | "uncordon" | "drain" | "remove";
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["NodeActionBody"];
            };
        };
        responses: {
            /** @description Its admin state from now on. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeAdminState"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-node`, `unknown-path`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `ambiguous-node`, `no-level`, `no-standing`, `node-in-use`, `node-removed`, `too-few-nodes`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    prove: {
        parameters: {
            query?: {
                /** @description The loss of what; `node`. */
                survive?: "node" | "domain" | "2-nodes";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As its leaders see it. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Survivability"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    route: {
        parameters: {
            query?: {
                /** @description `full`, `chord`, `chord-sharp`, `linear`, `lh` or `all`, with a form and `noimages` if wanted, separated by blanks. */
                lookup?: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                keyspace: string;
                /** @description The key: any bytes. */
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A route for each lookup. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RouteStatus"][];
                };
            };
            /** @description `bad-request`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    shards: {
        parameters: {
            query?: {
                /** @description Those of this keyspace. */
                keyspace?: string;
                /** @description Behind this id: `next` of a page. */
                after?: number;
                /** @description So many. */
                limit?: number;
                /** @description Of this node, or of all. */
                scope?: "node" | "cluster";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A page. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Shards"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    mergeShard: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its id. */
                shard: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description They are being merged. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MergeStatus"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-shard`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `no-merge`, `not-leader`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    splitShard: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its id. */
                shard: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Cut"];
            };
        };
        responses: {
            /** @description It is being split. */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SplitStatus"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-shard`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `no-split`, `not-leader`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    snapshots: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description In the order in which they were taken. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotList"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    takeSnapshot: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SnapshotBody"];
            };
        };
        responses: {
            /** @description It is kept. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotInfo"];
                };
            };
            /** @description `bad-request`, `in-future`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `snapshot-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    renewSnapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its number or token. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RenewBody"];
            };
        };
        responses: {
            /** @description As it is from now on. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SnapshotInfo"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-snapshot`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    releaseSnapshot: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its number or token. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is kept no longer. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-snapshot`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    status: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Status"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    topics: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Their names. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TopicList"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    createTopic: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TopicBody"];
            };
        };
        responses: {
            /** @description As it is. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TopicInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    topic: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description As it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TopicInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    deleteTopic: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                topic: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is gone. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    subscribe: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description The topic. */
                topic: string;
                /** @description The group's name. */
                group: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["GroupBody"];
            };
        };
        responses: {
            /** @description As it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["GroupInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    unsubscribe: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description The topic. */
                topic: string;
                /** @description The group's name. */
                group: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is gone. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    acknowledge: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description The topic. */
                topic: string;
                /** @description The group's name. */
                group: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AckBody"];
            };
        };
        responses: {
            /** @description It is known. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AckedBody"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    streamMessages: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
                /** @description At most so many at a time. */
                max?: number;
            };
            header?: never;
            path: {
                /** @description The topic. */
                topic: string;
                /** @description The group's name. */
                group: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Messages, each a JSON object. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    take: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description The topic. */
                topic: string;
                /** @description The group's name. */
                group: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TakeBody"];
            };
        };
        responses: {
            /** @description What there is, maybe nothing. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TakenBody"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    publish: {
        parameters: {
            query?: {
                /** @description The keyspace: 0, if not given. */
                keyspace?: string;
            };
            header?: never;
            path: {
                /** @description Its name. */
                topic: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PublishBody"];
            };
        };
        responses: {
            /** @description They are published. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PublishedMessages"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `bad-topic`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-topic`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-level`, `topic-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `message-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    transact: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TxnBody"];
            };
        };
        responses: {
            /** @description It is done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TxnDone"];
                };
            };
            /** @description `bad-request`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `conflict`, `operation-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`, `value-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    begin: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BeginBody"];
            };
        };
        responses: {
            /** @description It is open. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunTxn"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    run: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["DoBody"];
            };
        };
        responses: {
            /** @description What each has come to. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TxnResults"];
                };
            };
            /** @description `bad-request`, `key-too-long`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-transaction`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `conflict`, `operation-refused`, `transaction-in-use`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`, `value-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`, `too-many-transactions`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    rollback: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is over. */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-transaction`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `transaction-in-use`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    commit: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description Its name. */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Nothing"];
            };
        };
        responses: {
            /** @description It is done. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CommittedTxn"];
                };
            };
            /** @description `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`, `no-transaction`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `conflict`, `transaction-in-use`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`, `transaction-too-large`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    cloneVolume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The volume that is cloned. */
                volume: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CloneBody"];
            };
        };
        responses: {
            /** @description The clone. */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["KeyspaceInfo"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`, `in-future`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-timeout`. */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `keyspace-exists`, `no-level`, `snapshot-refused`. */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `below-safe-point`. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `body-too-long`. */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `not-json`. */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    flattenVolume: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The clone. */
                volume: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How far it is. */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Flattened"];
                };
            };
            /** @description `bad-keyspace`, `bad-request`. */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `foreign-host`, `foreign-origin`. */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `no-keyspace`. */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `uri-too-long`. */
            414: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `head-too-long`. */
            431: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `busy`, `loading`, `no-answer`, `stopping`, `storage-failed`. */
            503: {
                headers: {
                    /** @description Seconds to wait before it is sent again. */
                    "retry-after"?: number;
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `unknown-outcome`. */
            504: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description `disk-full`, `out-of-memory`. */
            507: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
