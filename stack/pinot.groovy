// All of Pinot in one JVM: ZooKeeper, controller, broker, server.
// Arguments: zoo.cfg, ZooKeeper's port, controller.conf, broker.conf, server.conf
import java.lang.invoke.MethodHandles
import java.util.concurrent.Callable
import java.util.concurrent.CountDownLatch
import java.util.concurrent.Executors
import java.util.concurrent.TimeUnit
import javassist.ClassPool
import javassist.LoaderClassPath
import javassist.expr.ExprEditor
import javassist.expr.MethodCall
import org.apache.pinot.core.transport.ServerResponse
import org.apache.pinot.spi.env.PinotConfiguration
import org.apache.pinot.spi.plugin.PluginManager
import org.apache.zookeeper.server.ServerConfig
import org.apache.zookeeper.server.ZooKeeperServerMain

def (zooFile, zooPort, controllerFile, brokerFile, serverFile) = args

// Pinot's server binds its query port on every address, and no setting restricts it. The class is therefore
// modified before it is loaded, so that the port is never open on another address.
class OnLoopback extends ExprEditor {
    int calls = 0

    void edit(MethodCall call) {
        if (call.methodName == 'bind') {
            call.replace('$_ = $0.bind("127.0.0.1", $1);')
            calls += 1
        }
    }
}

def bindQueriesOnLoopback = {
    def classes = new ClassPool()
    classes.appendClassPath(new LoaderClassPath(ServerResponse.classLoader))
    def server = classes.get('org.apache.pinot.core.transport.QueryServer')
    def editor = new OnLoopback()
    server.instrument(editor)
    if (editor.calls != 1) {
        throw new IllegalStateException("expected one call of bind in Pinot's server, found ${editor.calls}")
    }
    MethodHandles.privateLookupIn(ServerResponse, MethodHandles.lookup()).defineClass(server.toBytecode())
}

def startZooKeeper = {
    def config = new ServerConfig()
    config.parse(zooFile)
    Thread.startDaemon('zookeeper') {
        try {
            new ZooKeeperServerMain().runFromConfig(config)
        } catch (Throwable failure) {
            failure.printStackTrace()
            Runtime.runtime.halt(1)
        }
    }
    def deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(60)
    while (true) {
        try {
            new Socket('127.0.0.1', zooPort as int).close()
            return
        } catch (IOException refused) {
            if (System.nanoTime() > deadline) {
                throw refused
            }
            Thread.sleep(20)
        }
    }
}

def startRole = { String className, String file ->
    def properties = new Properties()
    new File(file).withInputStream { properties.load(it) }
    def role = Class.forName(className).getDeclaredConstructor().newInstance()
    role.init(new PinotConfiguration(new HashMap<String, Object>(properties)))
    role.start()
}

try {
    bindQueriesOnLoopback()
    startZooKeeper()
    PluginManager.get().init()
    // On an empty cluster, broker and server can join only after the controller has started.
    startRole('org.apache.pinot.controller.ControllerStarter', controllerFile)
    def pool = Executors.newFixedThreadPool(2)
    def joining = [
        pool.submit({ startRole('org.apache.pinot.broker.broker.helix.HelixBrokerStarter', brokerFile) } as Callable),
        pool.submit({ startRole('org.apache.pinot.server.starter.helix.HelixServerStarter', serverFile) } as Callable),
    ]
    joining.each { it.get() }
    pool.shutdown()
} catch (Throwable failure) {
    failure.printStackTrace()
    Runtime.runtime.halt(1)
}
new CountDownLatch(1).await()
